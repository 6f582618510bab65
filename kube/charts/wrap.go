package charts

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// hiddenMark starts the full name of a template that WrapTemplates has put
// aside. It sorts behind every chart name: among templates of one depth Helm
// parses those first, so that their definitions give way to a partial's, as
// those of a manifest do.
const hiddenMark = "~lockstep-"

// wrapperColumn is where the action of a wrapper begins. The column tells its
// place in error messages from places in the chart.
const wrapperColumn = 997

// The names of the functions that wrappers call: first enterer, with the name of
// the template; then normaliser with what a manifest is, or leaver with notes.
const (
	enterer    = "lockstepEnter"
	normaliser = "lockstepNormalise"
	leaver     = "lockstepLeave"
	replayer   = "lockstepReplay" // instead of all of them, with the name of the template
)

// TemplateFuncs returns the functions that wrapped templates call, for
// action.Configuration.CustomTemplateFuncs; a Guard has them as well.
func TemplateFuncs() template.FuncMap { return NewGuard(Limits{}).Funcs() }

// WrapTemplates makes every manifest that c and the charts below it render go
// through the normalisation of R1, before Helm parses it. It puts each template
// aside as a partial, and under the template's name a line that includes the
// partial; so .Template.Name, definitions in the file, and checksums of
// included files stay what they were. All templates are wrapped, whatever
// their text: annotations come from values and helpers as well.
//
// The action that renders c needs TemplateFuncs; UnwrapTemplates has to be
// called before the chart is stored, CleanError with the errors of the action.
func WrapTemplates(c *chart.Chart) {
	w := wrapper{of: wrapperOf}
	w.chart(c, c.Name(), 0)
}

// wrapper counts the charts that it wraps. of is the text that takes the place of a
// template, whose own is under a hidden name.
type wrapper struct {
	charts int
	of     func(name, hidden string) []byte
}

// chart wraps the templates of c, whose full path in its own names is full.
//
// The partial gets one name for all that Helm makes of c: with two aliases
// there are two charts of other paths, which share the templates. Helm joins
// a template's name to the chart's path, so a name that climbs out of the path
// does not depend on it. The depth stays the same, since at greater depth a
// definition gives way to one of the same name above.
func (w *wrapper) chart(c *chart.Chart, full string, depth int) {
	mark := fmt.Sprintf("%s%d.", hiddenMark, w.charts)
	climb := strings.Repeat("../", 2*depth+1)
	w.charts++
	var templates []*common.File
	for _, t := range c.Templates {
		if t == nil || !wrappable(c, t.Name) {
			templates = append(templates, t)
			continue
		}
		dir, base := path.Split(t.Name)
		hidden := mark + path.Join(full, dir, "_"+base)
		templates = append(templates,
			&common.File{Name: climb + hidden, ModTime: t.ModTime, Data: t.Data},
			&common.File{Name: t.Name, ModTime: t.ModTime, Data: w.of(shortened(path.Join(full, t.Name)), hidden)})
	}
	c.Templates = templates
	for _, sub := range c.Dependencies() {
		w.chart(sub, path.Join(full, "charts", sub.Name()), depth+1)
	}
}

// wrappable reports whether a template renders manifests, or notes. The templates
// of a library chart do not, and as partials they would count when they should not.
func wrappable(c *chart.Chart, name string) bool {
	return !strings.HasPrefix(path.Base(name), "_") && c.Metadata.Type != "library"
}

// shortened returns the name of a template with so much of its end as fits before
// wrapperColumn, however it is quoted.
func shortened(name string) string {
	const most = 200
	if quoted := strconv.Quote(name); len(quoted) < wrapperColumn-len(enterer)-len(`{{ }}{{`) {
		return name
	}
	return "…" + strings.ToValidUTF8(name[len(name)-min(len(name), most):], "")
}

func wrapperOf(name, hidden string) []byte {
	enter := fmt.Sprintf("{{%s %q}}", enterer, name)
	last := normaliser
	if strings.HasSuffix(name, "NOTES.txt") {
		last = leaver
	}
	indent := strings.Repeat(" ", wrapperColumn-len("{{")-len(enter))
	return fmt.Appendf(nil, "%s{{%sinclude %q . | %s }}", enter, indent, hidden, last)
}

// UnwrapTemplates undoes WrapTemplates, in c and the charts that are below it
// now. It does nothing to a chart that is not wrapped.
func UnwrapTemplates(c *chart.Chart) {
	var templates []*common.File
	for i := 0; i < len(c.Templates); i++ {
		t := c.Templates[i]
		if t != nil && strings.Contains(t.Name, "../"+hiddenMark) && i+1 < len(c.Templates) {
			i++
			t = &common.File{Name: c.Templates[i].Name, ModTime: t.ModTime, Data: t.Data}
		}
		templates = append(templates, t)
	}
	c.Templates = templates
	for _, sub := range c.Dependencies() {
		UnwrapTemplates(sub)
	}
}

var (
	// wrapperCall matches what an error says about the wrapper between the
	// template's name and the place in the hidden partial.
	wrapperCall = regexp.MustCompile(fmt.Sprintf(
		`:1:%d:?\s+executing "([^"]*)" at <include "(%s[^"]*)" \.>:\s+error calling include:\s+(?:template: )?`, wrapperColumn, hiddenMark))
	wrapperPlace = regexp.MustCompile(fmt.Sprintf(`:1:%d\b`, wrapperColumn))
	hiddenName   = regexp.MustCompile(hiddenMark + `\d+\.([^\s"()]*/)_`)
)

// CleanError returns err with the names of the user's own templates in place
// of those that WrapTemplates made. For a call of fail or required in a
// wrapped template Helm names the place of the wrapper; then the place is left
// out.
func CleanError(err error) error {
	if !ofWrapper(err) {
		return err
	}
	return &cleanError{clean(err.Error()), err}
}

// ofWrapper reports whether err is about the execution or the syntax of a
// wrapped template.
func ofWrapper(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, hiddenMark) || wrapperPlace.MatchString(text)
}

func clean(text string) string {
	for {
		m := wrapperCall.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		name, hidden := text[m[2]:m[3]], text[m[4]:m[5]]
		text = strings.TrimSuffix(text[:m[0]], name) + text[m[1]:]
		text = strings.ReplaceAll(text, hidden, name)
	}
	text = hiddenName.ReplaceAllString(text, "$1")
	return wrapperPlace.ReplaceAllString(text, "")
}

type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }
