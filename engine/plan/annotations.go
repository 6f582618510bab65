package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The annotations that declare the order. They belong on resources, except for
// AnnotationSubchartDependsOn, which belongs in Chart.yaml. A list is a JSON array of strings
// (R1).
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

// AnnotationHookScope is lockstep's own annotation on a hook of a subchart. With the value
// HookScopeSubchart the hook runs before or after that subchart.
const (
	AnnotationHookScope = "lockstep/hook-scope"
	HookScopeSubchart   = "subchart"
)

// TwoSlashKeys returns the annotation keys that the API server refuses, because a key may
// have only one slash (R3).
func TwoSlashKeys() []string {
	return []string{
		AnnotationGroupDependsOn,
		AnnotationSubchartDependsOn,
		AnnotationLayerDependsOn,
		AnnotationLayerChart,
	}
}

// The spellings of TwoSlashKeys that the API server accepts.
const (
	storedGroupDependsOn    = "helm.sh/depends-on-resource-groups"
	storedSubchartDependsOn = "helm.sh/depends-on-subcharts"
	storedLayerDependsOn    = "helm.sh/dependson-layer"
	storedLayerChart        = "helm.sh/dependson-chart"
)

// StoredKey returns the spelling of an annotation key in stored manifests: TwoSlashKeys get a
// dash instead of the second slash, other keys do not change (R3).
func StoredKey(key string) string {
	switch key {
	case AnnotationGroupDependsOn:
		return storedGroupDependsOn
	case AnnotationSubchartDependsOn:
		return storedSubchartDependsOn
	case AnnotationLayerDependsOn:
		return storedLayerDependsOn
	case AnnotationLayerChart:
		return storedLayerChart
	}
	return key
}

// Annotation looks up an annotation in either spelling (R3). The author's, with two slashes,
// takes precedence.
func Annotation(annotations map[string]string, key string) (value string, ok bool) {
	if value, ok = annotations[key]; !ok {
		value, ok = annotations[StoredKey(key)]
	}
	return value, ok
}

var errNoList = errors.New("must be a list")

// ParseList parses the value of a list annotation: a JSON array of strings (R1). It trims the
// strings.
func ParseList(value string) ([]string, error) {
	if names, ok := plainList(value); ok {
		return names, nil
	}
	var list []*string
	if err := json.Unmarshal([]byte(value), &list); err != nil || list == nil {
		return nil, errNoList
	}
	names := make([]string, len(list))
	for i, s := range list {
		if s == nil {
			return nil, errNoList
		}
		names[i] = strings.TrimSpace(*s)
	}
	return names, nil
}

// plainList parses a list of ASCII strings without escapes, which nearly all are, many times
// faster than encoding/json.
func plainList(value string) (names []string, ok bool) {
	names = make([]string, 0, strings.Count(value, `"`)/2)
	before, from := byte('['), 0 // the token before the next name, and the start of a name
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return nil, false
		case from > 0 && c == '"':
			names, from, before = append(names, strings.TrimSpace(value[from:i])), 0, ','
		case from > 0 || c == ' ':
		case c == '"' && before == 0:
			from = i + 1
		case c == before && before != 0:
			before = 0
		case c == ']' && before == ',':
			return names, strings.TrimSpace(value[i+1:]) == ""
		default:
			return nil, false
		}
	}
	return nil, false
}

// blankList reports whether the value of a list annotation is empty: white space, or null.
//
// Rule R2: an invalid list is a warning, or an error where order or readiness would be lost
// silently.
func blankList(value string) bool {
	if value == "" {
		return true
	}
	value = strings.TrimSpace(value)
	return value == "" || value == "null"
}

// parseNames parses an annotation with one name or a list of names.
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

// ordering is the declared order of one resource.
type ordering struct {
	// uses are the keys of the annotations that show the use of each family.
	uses [families]string
	// group is the resource-group or layer, empty if there is none.
	group string
	// weight is nil if there is none.
	weight *int64
	// needs are the groups, charts the subcharts to wait for.
	needs, charts       []string
	needsKey, chartsKey string
	// before are the kinds that come after the resource in its group (R16).
	before string
	// faults describe invalid annotations (R2). A resource with faults has neither group
	// nor weight.
	faults []string
}

// annotation is an annotation of a resource. The key is empty if the resource lacks it.
type annotation struct{ key, value string }

// orderAnnotations are the annotations of a resource about its order.
type orderAnnotations struct{ group, layer, weight, needs, layers, charts, before annotation }

// read finds the annotations in one pass. The author's spelling takes precedence (see
// Annotation).
func (s *orderAnnotations) read(annotations map[string]string) {
	stored := func(a *annotation, key, value string) {
		if a.key == "" {
			*a = annotation{key, value}
		}
	}
	for key, value := range annotations {
		switch key {
		case AnnotationGroup:
			s.group = annotation{key, value}
		case AnnotationLayer:
			s.layer = annotation{key, value}
		case AnnotationWeight:
			s.weight = annotation{key, value}
		case AnnotationGroupDependsOn:
			s.needs = annotation{key, value}
		case AnnotationLayerDependsOn:
			s.layers = annotation{key, value}
		case AnnotationLayerChart:
			s.charts = annotation{key, value}
		case AnnotationInstallBefore:
			s.before = annotation{key, value}
		case storedGroupDependsOn:
			stored(&s.needs, key, value)
		case storedLayerDependsOn:
			stored(&s.layers, key, value)
		case storedLayerChart:
			stored(&s.charts, key, value)
		}
	}
}

// read parses the annotations of one resource. Blank values are ignored.
//
// Rule R18: a layer is a group whose Jobs must complete; it may wait for subcharts.
func (o *ordering) read(annotations map[string]string) {
	var s orderAnnotations
	s.read(annotations)
	o.before = s.before.value
	o.plain(&s.group, byGroup)
	if o.plain(&s.layer, byLayer) {
		s.group = s.layer
	}
	if err := checkName(s.group.value); err != nil {
		o.fault(s.group, err)
	}
	o.group = s.group.value
	if !blankList(s.needs.value) {
		o.use(byGroup, s.needs.key)
		o.needs, o.needsKey = o.list(s.needs, ParseList), s.needs.key
	}
	if o.plain(&s.layers, byLayer) {
		o.needs, o.needsKey = o.list(s.layers, parseNames), s.layers.key
	}
	if o.plain(&s.charts, byLayer) {
		o.charts, o.chartsKey = o.list(s.charts, parseNames), s.charts.key
	}
	if o.plain(&s.weight, byWeight) {
		n, err := strconv.ParseInt(s.weight.value, 10, 64)
		if err != nil {
			o.fault(s.weight, errors.New("must be an integer"))
		}
		o.weight = &n
	}
	if len(o.faults) > 0 {
		o.group, o.weight, o.needs = "", nil, nil
	}
}

// plain trims an annotation, and reports whether it has a value, which shows the use of a
// family.
func (o *ordering) plain(s *annotation, f family) bool {
	if s.key == "" {
		return false
	}
	if s.value = strings.TrimSpace(s.value); s.value != "" {
		o.use(f, s.key)
	}
	return s.value != ""
}

// CheckAnnotation checks the value of a sequencing annotation (R2).
func CheckAnnotation(key, value string) error {
	var o ordering
	o.read(map[string]string{key: value})
	if len(o.faults) > 0 {
		return errors.New(o.faults[0])
	}
	switch key {
	case AnnotationReadinessSuccess, AnnotationReadinessFailure, AnnotationSubchartDependsOn, storedSubchartDependsOn:
		if !blankList(value) {
			_, err := ParseList(value)
			return err
		}
	}
	return nil
}

func (o *ordering) list(s annotation, parse func(string) ([]string, error)) []string {
	names, err := parse(s.value)
	if err != nil {
		o.fault(s, err)
	}
	return names
}

func (o *ordering) use(f family, key string) {
	if o.uses[f] == "" {
		o.uses[f] = key
	}
}

func (o *ordering) fault(s annotation, err error) {
	o.faults = append(o.faults, invalidAnnotation(s.key, s.value, err))
}

// invalidAnnotation says what an annotation must be, and what it is.
func invalidAnnotation(key, value string, err error) string {
	example := ""
	if errors.Is(err, errNoList) {
		example = `, such as '["a", "b"]'`
		if one := strings.TrimSpace(value); plainItem.MatchString(one) {
			example = fmt.Sprintf(`, such as '["%s"]'`, one)
		}
	}
	return fmt.Sprintf("annotation %s %v%s, but is %s", key, err, example, quote(value))
}

// plainItem matches a string that is an item of a list without its brackets and quotes.
var plainItem = regexp.MustCompile(`^[^][",'\\[:cntrl:]]{1,60}$`)

// maxQuoted is the maximum length of a value in a message.
const maxQuoted = 200

// quote quotes a value as YAML does, so that quotes inside it are not escaped.
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
		return errors.New("must not be a reserved name")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return errors.New("must be a name of printable characters")
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
