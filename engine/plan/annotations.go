package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The annotations that declare order and readiness. They belong on objects, except for AnnotationSubchartDependsOn, which
// belongs in Chart.yaml. A list is a JSON array of strings (R1).
const (
	AnnotationGroup             = "helm.sh/resource-group"
	AnnotationGroupDependsOn    = "helm.sh/depends-on/resource-groups" // list
	AnnotationSubchartDependsOn = "helm.sh/depends-on/subcharts"       // list
	AnnotationLayer             = "helm.sh/layer"
	AnnotationLayerDependsOn    = "helm.sh/dependson/layer" // name or list
	AnnotationLayerChart        = "helm.sh/dependson/chart" // name or list
	AnnotationWeight            = "helm.sh/weight"
	AnnotationInstallBefore     = "helm.sh/install-before"    // kinds, separated by commas
	AnnotationReadinessSuccess  = "helm.sh/readiness-success" // list
	AnnotationReadinessFailure  = "helm.sh/readiness-failure" // list
)

// AnnotationDependsOn is lockstep's own annotation in Chart.yaml: the subcharts that each subchart waits for, as a mapping in YAML or JSON
// from a name to a list (R4). Unlike the field depends-on, helm package keeps it.
const AnnotationDependsOn = "lockstep/depends-on"

// AnnotationHookScope is lockstep's own annotation on a hook of a subchart. With the value
// HookScopeSubchart the hook runs before or after that subchart.
const (
	AnnotationHookScope = "lockstep/hook-scope"
	HookScopeSubchart   = "subchart"
)

// storedKeys maps annotation keys with two slashes, which the API server refuses, to their spelling
// in stored manifests (R3).
var storedKeys = map[string]string{
	AnnotationGroupDependsOn:    "helm.sh/depends-on-resource-groups",
	AnnotationSubchartDependsOn: "helm.sh/depends-on-subcharts",
	AnnotationLayerDependsOn:    "helm.sh/dependson-layer",
	AnnotationLayerChart:        "helm.sh/dependson-chart",
}

// TwoSlashKeys returns the annotation keys with two slashes, which the API server refuses.
func TwoSlashKeys() []string { return slices.Sorted(maps.Keys(storedKeys)) }

// StoredKey returns the spelling of an annotation key in stored manifests: TwoSlashKeys get a
// dash instead of the second slash, other keys do not change.
func StoredKey(key string) string { return cmp.Or(storedKeys[key], key) }

// helmKeys are Helm's own annotations and labels below keyPrefix.
var helmKeys = []string{
	"helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy", "helm.sh/hook-output-log-policy", "helm.sh/resource-policy", "helm.sh/chart",
}

// keyPrefix is the prefix of the ordering annotations and of Helm's own.
const keyPrefix = "helm.sh/"

// knownKeys are all keys below keyPrefix that have a meaning.
var knownKeys = slices.Concat(helmKeys, TwoSlashKeys(), slices.Sorted(maps.Values(storedKeys)), []string{
	AnnotationGroup, AnnotationLayer, AnnotationWeight, AnnotationInstallBefore, AnnotationReadinessSuccess, AnnotationReadinessFailure,
	AnnotationReadinessTimeout,
})

// maxTypos limits the number of wrong characters in a name that counts as misspelt.
const maxTypos = 4

// Misspelt returns the known key that is most similar to an unknown one, or "" if none is similar.
func Misspelt(key string) (known string) {
	if !strings.HasPrefix(key, keyPrefix) || slices.Contains(knownKeys, key) {
		return ""
	}
	return Nearest(key, knownKeys, typosIn(len(key)-len(keyPrefix)))
}

// NearestName returns the known name that is most similar to a misspelt one, or "" if none is similar.
func NearestName(name string, known []string) string {
	return Nearest(name, known, typosIn(len(name)))
}

// typosIn returns how many characters may be wrong in a misspelt name of the given length.
func typosIn(length int) int { return min(max(length/3, 1), maxTypos) }

// Annotation looks up an annotation in either spelling (R3). The key with two slashes takes precedence.
func Annotation(annotations map[string]string, key string) (value string, ok bool) {
	a := findAnnotation(annotations, key)
	return a.value, a.key != ""
}

// annotation is an annotation with the key that the author used, or with an empty key if the
// object has none.
type annotation struct{ key, value string }

func findAnnotation(annotations map[string]string, key string) annotation {
	for _, key := range []string{key, StoredKey(key)} {
		if value, ok := annotations[key]; ok {
			return annotation{key, value}
		}
	}
	return annotation{}
}

var errNotList = errors.New("must be a list")

// ParseList parses the value of a list annotation: a JSON array of strings (R1). It trims the strings.
func ParseList(value string) ([]string, error) {
	var list []*string
	if err := json.Unmarshal([]byte(value), &list); err != nil || list == nil {
		return nil, errNotList
	}
	names := make([]string, len(list))
	for i, s := range list {
		if s == nil {
			return nil, errNotList
		}
		names[i] = strings.TrimSpace(*s)
	}
	return names, nil
}

// blankList reports whether the value of a list annotation counts as absent.
func blankList(value string) bool {
	value = strings.TrimSpace(value)
	return value == "" || value == "null"
}

// ParseNames parses one name, or a list of names.
func ParseNames(value string) ([]string, error) {
	if strings.HasPrefix(value, "[") {
		return ParseList(value)
	}
	return []string{value}, nil
}

// method is a method of ordering the objects of a chart (R20).
type method int

const (
	byGroup method = iota
	byLayer
	byWeight
	methods // the number of methods
)

// ordering is the declared order of one object.
type ordering struct {
	// uses has a key for each method that the annotations use.
	uses [methods]string
	// group is the resource-group or layer, empty if there is none.
	group string
	// weight is nil if there is none.
	weight *int64
	// needs are the groups to wait for, charts the subcharts, both with the keys that list them.
	needs, charts       []string
	needsKey, chartsKey string
	// before is the value of helm.sh/install-before: the kinds that come after the object in its group (R16).
	before string
	// faults describe invalid annotations (R2). An object with faults has neither group nor weight.
	faults []string
}

// read parses the annotations of one object. Blank values are ignored.
//
// Rule R18: a layer is a group whose Jobs must complete; it may wait for subcharts
func (o *ordering) read(annotations map[string]string) {
	o.before = annotations[AnnotationInstallBefore]
	group := o.find(annotations, AnnotationGroup, byGroup)
	if layer := o.find(annotations, AnnotationLayer, byLayer); layer.value != "" {
		group = layer
	}
	if err := checkName(group.value); err != nil {
		o.fault(group, err)
	}
	o.group = group.value
	if needs := findAnnotation(annotations, AnnotationGroupDependsOn); !blankList(needs.value) {
		o.uses[byGroup] = cmp.Or(o.uses[byGroup], needs.key)
		o.needs, o.needsKey = o.list(needs, ParseList), needs.key
	}
	if layers := o.find(annotations, AnnotationLayerDependsOn, byLayer); layers.value != "" {
		o.needs, o.needsKey = o.list(layers, ParseNames), layers.key
	}
	if charts := o.find(annotations, AnnotationLayerChart, byLayer); charts.value != "" {
		o.charts, o.chartsKey = o.list(charts, ParseNames), charts.key
	}
	if weight := o.find(annotations, AnnotationWeight, byWeight); weight.value != "" {
		n, err := strconv.ParseInt(weight.value, 10, 64)
		if err != nil {
			o.fault(weight, errors.New("must be an integer"))
		}
		o.weight = &n
	}
	if len(o.faults) > 0 {
		o.group, o.weight, o.needs = "", nil, nil
	}
}

// find looks up an annotation and trims its value. If the value is not blank, the object uses the method.
func (o *ordering) find(annotations map[string]string, key string, by method) annotation {
	a := findAnnotation(annotations, key)
	if a.value = strings.TrimSpace(a.value); a.value != "" {
		o.uses[by] = cmp.Or(o.uses[by], a.key)
	}
	return a
}

// CheckAnnotation checks the value of an annotation that declares order or readiness (R2).
func CheckAnnotation(key, value string) error {
	var o ordering
	o.read(map[string]string{key: value})
	if len(o.faults) > 0 {
		return errors.New(o.faults[0])
	}
	switch key {
	case AnnotationReadinessSuccess, AnnotationReadinessFailure, AnnotationSubchartDependsOn, storedKeys[AnnotationSubchartDependsOn]:
		if !blankList(value) {
			_, err := ParseList(value)
			return err
		}
	}
	return nil
}

func (o *ordering) list(a annotation, parse func(string) ([]string, error)) []string {
	names, err := parse(a.value)
	if err != nil {
		o.fault(a, err)
	}
	return names
}

func (o *ordering) fault(a annotation, err error) {
	o.faults = append(o.faults, invalidAnnotation(a.key, a.value, err))
}

// invalidAnnotation describes an invalid annotation: "annotation helm.sh/weight must be an integer, but is 'x'".
func invalidAnnotation(key, value string, err error) string {
	example := ""
	if errors.Is(err, errNotList) {
		example = `, such as '["a", "b"]'`
		switch item := strings.TrimSpace(value); {
		case key == AnnotationReadinessSuccess:
			example = `, such as '["{.succeeded} >= 1"]'` // value may be an invalid expression
		case key == AnnotationReadinessFailure:
			example = `, such as '["{.failed} >= 1"]'`
		case singleItem.MatchString(item):
			example = fmt.Sprintf(`, such as '["%s"]'`, item)
		}
	}
	return fmt.Sprintf("annotation %s %v%s, but is %s", key, err, example, quote(value))
}

// singleItem matches a value that only lacks brackets and quotes.
var singleItem = regexp.MustCompile(`^[^][",'\\[:cntrl:]]{1,60}$`)

// maxQuoted is the maximum length of a value in a message.
const maxQuoted = 200

// quote quotes a value like YAML, with single quotes, so that double quotes inside it stay readable.
func quote(value string) string {
	if short := []rune(value); len(short) > maxQuoted {
		value = string(short[:maxQuoted]) + "…"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(value)
	}
	return "'" + value + "'"
}

// checkName refuses names that would break the lines and ids that contain them.
func checkName(name string) error {
	if name == Unsequenced {
		return errors.New("must not be a reserved name")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return errors.New("must contain only printable characters")
	}
	if strings.HasPrefix(name, "[") {
		if _, err := ParseList(name); err == nil {
			return errors.New("must be one name")
		}
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
