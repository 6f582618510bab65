package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// The annotations that say what is deployed when. All but
// AnnotationSubchartDependsOn, which belongs into Chart.yaml, are those of
// resources. A list is a JSON array of strings (R1).
const (
	AnnotationGroup             = "helm.sh/resource-group"
	AnnotationGroupDependsOn    = "helm.sh/depends-on/resource-groups" // list
	AnnotationSubchartDependsOn = "helm.sh/depends-on/subcharts"       // list
	AnnotationLayer             = "helm.sh/layer"
	AnnotationLayerDependsOn    = "helm.sh/dependson/layer" // name or list
	AnnotationLayerChart        = "helm.sh/dependson/chart" // name or list
	AnnotationWeight            = "helm.sh/weight"
	AnnotationInstallBefore     = "helm.sh/install-before"    // kinds, with commas
	AnnotationReadinessSuccess  = "helm.sh/readiness-success" // list
	AnnotationReadinessFailure  = "helm.sh/readiness-failure" // list
)

// AnnotationHookScope is lockstep's own, on a hook of a subchart: with the
// value HookScopeSubchart the hook runs around that subchart's turn.
const (
	AnnotationHookScope = "lockstep/hook-scope"
	HookScopeSubchart   = "subchart"
)

// TwoSlashKeys returns the annotation keys that the API server refuses, since
// a key has room for one slash only (R3).
func TwoSlashKeys() []string {
	return []string{
		AnnotationGroupDependsOn,
		AnnotationSubchartDependsOn,
		AnnotationLayerDependsOn,
		AnnotationLayerChart,
	}
}

// StoredKey returns the spelling of an annotation key under which a stored
// manifest keeps it: those of TwoSlashKeys with a dash for the second slash,
// all others as they are (R3).
func StoredKey(key string) string {
	switch key {
	case AnnotationGroupDependsOn:
		return "helm.sh/depends-on-resource-groups"
	case AnnotationSubchartDependsOn:
		return "helm.sh/depends-on-subcharts"
	case AnnotationLayerDependsOn:
		return "helm.sh/dependson-layer"
	case AnnotationLayerChart:
		return "helm.sh/dependson-chart"
	}
	return key
}

// Annotation looks up an annotation in either spelling (R3). Where both are
// there, the author's, with two slashes, counts.
func Annotation(annotations map[string]string, key string) (value string, ok bool) {
	_, value, ok = findAnnotation(annotations, key)
	return value, ok
}

func findAnnotation(annotations map[string]string, key string) (spelled, value string, ok bool) {
	if value, ok = annotations[key]; ok {
		return key, value, true
	}
	if spelled = StoredKey(key); spelled != key {
		value, ok = annotations[spelled]
	}
	return spelled, value, ok
}

// ParseList reads the value of a list annotation: a JSON array of strings
// (R1). White space around the strings is dropped.
func ParseList(value string) ([]string, error) {
	var list []*string
	if err := json.Unmarshal([]byte(value), &list); err != nil || list == nil {
		return nil, errors.New("want a JSON array of strings")
	}
	names := make([]string, len(list))
	for i, s := range list {
		if s == nil {
			return nil, errors.New("want a JSON array of strings")
		}
		names[i] = strings.TrimSpace(*s)
	}
	return names, nil
}

// blankList reports whether the value of a list annotation is as good as none:
// white space, or null.
//
// Rule R2: what is neither that nor a list is told, and where order or readiness
// would be lost in silence refused.
func blankList(value string) bool {
	value = strings.TrimSpace(value)
	return value == "" || value == "null"
}

// parseNames reads an annotation that takes one name or a list of them.
func parseNames(value string) ([]string, error) {
	if strings.HasPrefix(value, "[") {
		return ParseList(value)
	}
	return []string{value}, nil
}

// family is one of the ways to order the resources of a chart (R20).
type family int

const (
	byGroup family = iota
	byLayer
	byWeight
	families
)

// ordering is what the annotations of one resource ask for.
type ordering struct {
	// uses holds the annotation that shows the use of each family, as spelled.
	uses [families]string
	// group is the resource-group or layer, empty where there is none.
	group string
	// weight is nil where there is none.
	weight *int64
	// needs are the groups, charts the subcharts to wait for.
	needs, charts       []string
	needsKey, chartsKey string
	// faults tell which annotations cannot be read (R2). A resource with one
	// has neither group nor weight.
	faults []string
}

// readOrdering reads the annotations of one resource. What is blank counts as
// none.
func readOrdering(annotations map[string]string) ordering {
	var o ordering
	if len(annotations) == 0 {
		return o
	}
	key, name := o.plain(annotations, AnnotationGroup, byGroup)
	if k, layer := o.plain(annotations, AnnotationLayer, byLayer); layer != "" {
		key, name = k, layer
	}
	if err := checkName(name); err != nil {
		o.fault(key, name, err)
	}
	o.group = name
	o.readNeeds(annotations)
	if key, weight := o.plain(annotations, AnnotationWeight, byWeight); weight != "" {
		n, err := strconv.ParseInt(weight, 10, 64)
		if err != nil {
			o.fault(key, weight, errors.New("want an integer"))
		}
		o.weight = &n
	}
	if len(o.faults) > 0 {
		o.group, o.weight, o.needs = "", nil, nil
	}
	return o
}

// readNeeds reads what a resource waits for (R1, R18).
//
// Rule R18: a layer is a group whose Jobs have to complete; it may wait for subcharts.
func (o *ordering) readNeeds(annotations map[string]string) {
	var err error
	if key, value, _ := findAnnotation(annotations, AnnotationGroupDependsOn); !blankList(value) {
		o.use(byGroup, key)
		if o.needs, err = ParseList(value); err != nil {
			o.fault(key, value, err)
		}
		o.needsKey = key
	}
	if key, value := o.plain(annotations, AnnotationLayerDependsOn, byLayer); value != "" {
		if o.needs, err = parseNames(value); err != nil {
			o.fault(key, value, err)
		}
		o.needsKey = key
	}
	if key, value := o.plain(annotations, AnnotationLayerChart, byLayer); value != "" {
		if o.charts, err = parseNames(value); err != nil {
			o.fault(key, value, err)
		}
		o.chartsKey = key
	}
}

// plain reads an annotation that may be blank, and notes its family if it is
// not.
func (o *ordering) plain(annotations map[string]string, key string, f family) (spelled, value string) {
	spelled, value, _ = findAnnotation(annotations, key)
	value = strings.TrimSpace(value)
	if value != "" {
		o.use(f, spelled)
	}
	return spelled, value
}

func (o *ordering) use(f family, key string) {
	if o.uses[f] == "" {
		o.uses[f] = key
	}
}

func (o *ordering) fault(key, value string, err error) {
	o.faults = append(o.faults, fmt.Sprintf("annotation %s is %s: %v", key, quote(value), err))
}

// maxQuoted is how many characters of a value a message has room for.
const maxQuoted = 200

// quote marks off a value in a message as YAML does, so that the quotes in it
// stay as their author wrote them.
func quote(value string) string {
	if short := []rune(value); len(short) > maxQuoted {
		value = string(short[:maxQuoted]) + "…"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(value)
	}
	return "'" + value + "'"
}

// checkName refuses names that would break the lines and ids they are part of.
func checkName(name string) error {
	if name == Unsequenced {
		return errors.New("the name is taken")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return errors.New("want a name of printable characters")
	}
	return nil
}

// parseKinds reads the value of helm.sh/install-before (R16).
func parseKinds(value string) []string {
	var kinds []string
	for kind := range strings.SplitSeq(value, ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
