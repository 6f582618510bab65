package charts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// Values merges the values of -f and --set, as Helm does, and rewords Helm's errors. A run in the cluster has one file,
// with the values that the user's machine has merged.
func Values(o values.Options, settings *cli.EnvSettings) (map[string]any, error) {
	if len(o.ValueFiles) == 1 && strings.HasSuffix(o.ValueFiles[0], documents.ExactSuffix) {
		data, err := os.ReadFile(o.ValueFiles[0])
		if err != nil {
			return nil, fmt.Errorf("cannot read the packed values: %w", err)
		}
		return documents.DecodeExact(string(data))
	}
	v, err := o.MergeValues(getter.All(settings))
	var file *fs.PathError
	var request *url.Error
	switch {
	case errors.As(err, &request) && request.Error() != err.Error(): // only an error of --set-file is wrapped
		return nil, setFileError(o, request.URL, urlReason(request))
	case errors.As(err, &request):
		return nil, fmt.Errorf("cannot read values file %s: %w; check the URL and the network", request.URL, request.Err)
	case errors.As(err, &file) && file.Error() == err.Error():
		return nil, fmt.Errorf("cannot read values file %s: %s", file.Path, fileReason(file))
	case errors.As(err, &file):
		return nil, setFileError(o, file.Path, fileReason(file))
	case err != nil && valuesFile.MatchString(err.Error()):
		name := valuesFile.FindStringSubmatch(err.Error())[1]
		data, _ := os.ReadFile(name) // nil for a URL or "-"
		return nil, documents.ValuesError(name, data, err)
	case err != nil:
		return nil, setError(o, err)
	}
	return v, nil
}

// setError rewords an error about the arguments of --set and similar flags.
func setError(o values.Options, err error) error {
	soFar := map[string]any{}
	for _, flag := range setFlags(o) { // as Helm does, which stops at the first error
		if strings.HasPrefix(err.Error(), "failed parsing "+flag.Name+" data") && flag.Name != "--set-json" {
			return flag.Error(soFar, err)
		}
		for _, argument := range flag.Arguments {
			_ = flag.Parse(argument, soFar)
		}
	}
	return errors.New(notJSON.ReplaceAllString(err.Error(), "invalid --set-json ${1}…: the value is not valid JSON; use key=JSON or {\"key\": JSON}"))
}

// setFile returns the assignment of --set-file with a file. If Helm has changed its name, it is one of a password, if there is any.
func setFile(o values.Options, name string) (found string) {
	for _, argument := range o.FileValues {
		for _, part := range documents.Assignments("set-file", argument) {
			switch _, value, _ := strings.Cut(part, "="); {
			case value == name:
				return part
			case isPassword(part):
				found = part
			}
		}
	}
	return found
}

// isPassword reports whether an assignment sets a value that is named like a credential.
func isPassword(assignment string) bool {
	return (*mask.Mask)(nil).Argument("set", assignment) != assignment
}

// setFileError is an error about a file of --set-file. It does not show the file of a password, which may be the password itself.
func setFileError(o values.Options, name, reason string) error {
	part := setFile(o, name)
	if isPassword(part) {
		key, _, _ := strings.Cut(part, "=")
		return fmt.Errorf("--set-file: cannot read the file of %s: %s; use --set-string for a text", key, reason)
	}
	return fmt.Errorf("--set-file: cannot read %s: %s", name, reason)
}

// urlReason is the reason of an error about a URL. One about its syntax quotes parts of it.
func urlReason(err *url.Error) string {
	if err.Op == "parse" {
		return "it is neither a path nor a URL"
	}
	return err.Err.Error()
}

func fileReason(err *fs.PathError) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	return err.Err.Error()
}

var (
	// valuesFile matches the start of an error about the contents of a values file.
	valuesFile = regexp.MustCompile(`^failed to parse (\S+): cannot unmarshal yaml document: `)
	// notJSON matches an error about --set-json, which quotes the argument, maybe a secret, and gives no reason.
	notJSON = regexp.MustCompile(`(?s)^failed parsing --set-json data (?:JSON: )?([\w.\[\]-]+=)?.*$`)
)

// setFlags returns --set and similar flags in the order in which Helm reads them.
func setFlags(o values.Options) []documents.SetFlag {
	parseFile := func(text string, to map[string]any) error {
		return strvals.ParseIntoFile(text, to, func([]rune) (any, error) { return "", nil })
	}
	return []documents.SetFlag{
		{Name: "--set-json", Arguments: o.JSONValues, Parse: strvals.ParseJSON},
		{Name: "--set", Arguments: o.Values, Parse: strvals.ParseInto},
		{Name: "--set-string", Arguments: o.StringValues, Parse: strvals.ParseIntoString},
		{Name: "--set-file", Arguments: o.FileValues, Parse: parseFile},
		{Name: "--set-literal", Arguments: o.LiteralValues, Parse: strvals.ParseLiteralInto},
	}
}

// IgnoredValues returns a warning for each argument of --set and similar flags that Helm accepts
// although it sets nothing. The warnings hide the values, and all that follows a password, which may have a comma in it.
func IgnoredValues(o values.Options) (warnings []string) {
	for _, flag := range setFlags(o) {
		for _, argument := range flag.Arguments {
			password := ""
			for i, text := range flag.Parts(argument) {
				key, _, assigns := strings.Cut(text, "=")
				if to := map[string]any{}; text != "" && flag.Parse(text, to) == nil && len(to) == 0 {
					shown, defect := key, keyDefect(key)
					if assigns {
						shown += "=" + mask.Ellipsis
					}
					if password != "" {
						shown, defect = fmt.Sprintf("part %d, after %s=%s", i+1, password, mask.Ellipsis), `write a comma inside a value as \,`
					}
					warnings = append(warnings, fmt.Sprintf("%s %s sets nothing: %s", flag.Name, shown, defect))
				}
				if password == "" && isPassword(text) {
					password = key
				}
			}
		}
	}
	return warnings
}

// keyDefect says why a key sets nothing, and what to write instead.
func keyDefect(key string) string {
	list, index, isList := strings.Cut(key, "[")
	switch {
	case key == "":
		return "its key is empty; write key=value"
	case isList && !strings.Contains(index, "]") && !slices.Contains(strings.Split(list, "."), ""):
		digits := index[:len(index)-len(strings.TrimLeft(index, "0123456789"))]
		return fmt.Sprintf("its key lacks a closing bracket; write %s[%s]=value", list, cmp.Or(digits, "0"))
	}
	return "a part of its key is empty; name each part, as in a.b=value or a[0]=value"
}

// CopyValues returns a deep copy of values, for Helm's actions, which modify their values. Unlike
// a copy through YAML or JSON, it keeps types, nulls and invalid UTF-8. It returns an empty map
// for nil.
func CopyValues(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return copyValue(values).(map[string]any)
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key, e := range v {
			v[key] = copyValue(e)
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i, e := range v {
			v[i] = copyValue(e)
		}
		return v
	}
	return v
}

// KeepTypes returns the edited value, in which what YAML has not kept of the value before is as it was: integers, and
// strings that are not UTF-8.
func KeepTypes(before, edited any) any {
	switch v := edited.(type) {
	case map[string]any:
		old, _ := before.(map[string]any)
		for key, e := range v {
			v[key] = KeepTypes(old[key], e)
		}
	case []any:
		old, _ := before.([]any)
		for i := range min(len(old), len(v)) {
			v[i] = KeepTypes(old[i], v[i])
		}
	case float64:
		if old, ok := before.(int64); ok && float64(old) == v {
			return old
		}
	case string:
		if old, ok := before.(string); ok && string([]rune(old)) == v {
			return old
		}
	}
	return edited
}

// FloatsInFile returns the --set arguments of the integers that a template prints differently if they are in a values file: Helm
// reads its numbers as floats, and prints 1000000 as 1e+06.
func FloatsInFile(values map[string]any) (args []string) {
	var add func(path string, v any)
	add = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				add(strings.TrimPrefix(path+"."+setKey.Replace(key), "."), v[key])
			}
		case []any:
			for i, e := range v {
				add(fmt.Sprintf("%s[%d]", path, i), e)
			}
		case int64:
			if fmt.Sprint(v) != fmt.Sprint(float64(v)) {
				args = append(args, fmt.Sprintf("%s=%d", path, v))
			}
		}
	}
	add("", values)
	return args
}

// setKey escapes a key for --set.
var setKey = strings.NewReplacer(`\`, `\\`, ".", `\.`, ",", `\,`, "=", `\=`, "[", `\[`)

// YAML encodes values or an object as YAML.
func YAML(fields map[string]any) (string, error) {
	text, err := json.Marshal(fields)
	if err == nil {
		text, err = yaml.JSONToYAML([]byte(unprintable.Replace(string(text))))
	}
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(text), nil
}

// unprintable escapes the characters that JSON allows in a string, and YAML does not or changes: DEL, and the C1 controls.
var unprintable = func() *strings.Replacer {
	var pairs []string
	for c := rune(0x7f); c <= 0x9f; c++ {
		pairs = append(pairs, string(c), fmt.Sprintf(`\u%04x`, c))
	}
	return strings.NewReplacer(pairs...)
}()

// ApplyChanges adds the differences between before and after, two sets of merged values, to
// overrides. A deleted value becomes null, which removes the chart's default.
func ApplyChanges(overrides, before, after map[string]any) {
	for k, v := range after {
		old, exists := before[k]
		if exists && reflect.DeepEqual(old, v) {
			continue
		}
		oldMap, wasMap := old.(map[string]any)
		newMap, isMap := v.(map[string]any)
		if !wasMap || !isMap {
			overrides[k] = copyValue(v)
			continue
		}
		inner, ok := overrides[k].(map[string]any)
		if !ok {
			inner = map[string]any{}
			overrides[k] = inner
		}
		ApplyChanges(inner, oldMap, newMap)
	}
	for k, v := range before {
		if _, exists := after[k]; !exists && v != nil {
			overrides[k] = nil
		}
	}
}

// Defaults returns the values.yaml of a chart as comments, for a file that the user edits; "" if the chart has none. The chart of a
// stored release has lost that file's text: of it, the values stand alone.
func Defaults(c *chart.Chart) string {
	var data []byte
	for _, f := range c.Raw {
		if f.Name == "values.yaml" {
			data = bytes.TrimSpace(f.Data)
		}
	}
	if len(c.Raw) == 0 && len(c.Values) > 0 {
		text, err := YAML(c.Values)
		if err != nil {
			return ""
		}
		data = []byte(strings.TrimSpace(text))
	}
	if len(data) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# The chart's defaults follow as comments.\n\n")
	for line := range bytes.Lines(data) {
		b.WriteString("# " + string(line))
	}
	return b.String() + "\n"
}
