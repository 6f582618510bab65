package report

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// Mode is an output format.
type Mode string

const (
	ModeText Mode = "text"
	ModeJSON Mode = "json"
	ModeYAML Mode = "yaml" // only for Helm's output; everything else is JSON
)

// View is the result of a command, shown as text or as JSON.
type View interface {
	text(Stream) string
}

// jsonView is a View whose JSON is that of the value that jsonForm returns; nil means no output.
type jsonView interface{ jsonForm() any }

// compact is a JSON form that is written on one line.
type compact struct{ value any }

// Display shows the results of commands as text or JSON.
type Display struct {
	Notices
	mode  Mode
	out   Stream
	lines io.Writer // sanitized writer of text
}

// New returns a Display that writes results to out and everything else to errs.
func New(mode Mode, out, errs Stream) Display {
	d := Display{Notices: NewNotices(errs), mode: mode, out: out, lines: styled(out.withoutCommands(), out.Style)}
	switch mode {
	case ModeJSON:
		d.out.Writer = escaped(out.withoutCommands())
	case ModeYAML:
		d.out.Writer = Safe(out.Writer)
	}
	return d
}

func (d Display) isText() bool { return d.mode == ModeText }

// Show shows a result.
func (d Display) Show(v View) error {
	if d.isText() {
		switch p := v.(type) { // the JSON includes the warnings
		case Plan:
			d.Warnings(p.Warnings)
		case StackPlan:
			d.Warnings(p.warnings())
		}
		return write(d.lines, v.text(d.out))
	}
	var form any = v
	if j, ok := v.(jsonView); ok {
		form = j.jsonForm()
	}
	switch f := form.(type) {
	case nil:
		return nil
	case compact:
		return encodeLine(d.out, f.value)
	}
	return JSON(d.out, form)
}

// Lines writes plain lines in every mode.
func (d Display) Lines(lines ...string) error {
	return write(Safe(d.out.Writer), joinLines(cleaned(lines...)))
}

// Print writes text that is not part of the result: to stdout in text mode, else to stderr.
func (d Display) Print(text string) {
	to := d.errs
	if d.isText() {
		to = d.lines
	}
	fmt.Fprint(to, text)
}

// Operation returns the consumer that shows an operation.
func (d Display) Operation(o Options) Consumer {
	o.Style, o.Width = d.out.Style, d.out.Width
	text := newTextLog(d.lines, d.errs, o)
	if d.out.CI == GitLab {
		return d.consumer(&sections{Consumer: text, w: d.out.Writer})
	}
	return d.consumer(text)
}

// Watch returns the consumer that shows a release and its changes.
func (d Display) Watch() Consumer {
	return d.consumer(&changeLog{out: d.lines, Notices: d.Notices, style: d.out.Style})
}

// Once returns the consumer for a release that is shown once. In text mode it discards the
// events; the caller shows a Release at the end.
func (d Display) Once() Consumer { return d.consumer(discard{}) }

// consumer returns text, or the consumer that writes events as JSON.
func (d Display) consumer(text Consumer) Consumer {
	if d.isText() {
		return text
	}
	return jsonLines{d.out}
}

// helmColours matches what Helm colours: table headings, statuses, namespaces.
var helmColours = regexp.MustCompile(`\x1b\[(?:(?:1|3[1-3])m(?:[A-Z]+(?: [A-Z]+)?|deployed|failed|unknown|uninstalling|pending-[a-z]+)|36m[a-z0-9-]+)\x1b\[(?:0|22)(?:;(?:0|22))*m`)

// Text returns the writer for Helm's text output.
func (d Display) Text() io.Writer {
	return newSanitizer(d.out.withoutCommands(), func(s string) string { return sanitize(s, helmColours) })
}

// Data returns the writer for data that may be piped to other programs. It is sanitized only on a terminal.
func (d Display) Data() io.Writer {
	if d.out.Terminal {
		return Safe(d.out.Writer)
	}
	return d.out.Writer
}

// Notices writes messages to stderr, in every mode.
type Notices struct {
	errs  io.Writer
	style Style
}

// NewNotices returns Notices on a stream.
func NewNotices(to Stream) Notices { return Notices{styled(to.withoutCommands(), to.Style), to.Style} }

func (n Notices) Note(text string) { fmt.Fprintln(n.errs, text) }

func (n Notices) Warn(text string) { fmt.Fprintln(n.errs, "warning:", text) }

func (n Notices) Warnings(warnings []plan.Warning) {
	for _, w := range warnings {
		n.Warn(format.Warning(w.Rule, nil, w.Message))
	}
}

// Start announces a slow step. The returned function completes the line with the result.
func (n Notices) Start(text string) func(string) {
	fmt.Fprint(n.errs, text+" … ")
	return func(end string) { fmt.Fprintln(n.errs, end) }
}

// Error writes the error of a command, as its last line.
func (n Notices) Error(err error) {
	fmt.Fprintln(n.errs, n.style.render(theme.Bad, "error:"), err)
}

// JSON writes a value as indented JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// encodeLine writes a value as JSON on one line.
func encodeLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

type discard struct{}

func (discard) Consume(event.Event) {}

// Page writes a help page. It ignores write errors: the user may have quit the pager.
func Page(w io.Writer, text string) { _ = write(Safe(w), text) }

// Styled is like Page, but keeps the control sequences of a style.
func Styled(w io.Writer, style Style, text string) { _ = write(styled(w, style), text) }

// jsonLines writes one event per line (events.md), with unsafe characters escaped. It ignores write errors. Each event is a single
// Write, so that lines of concurrent writers do not mix.
type jsonLines struct{ w io.Writer }

func (j jsonLines) Consume(e event.Event) {
	if line, err := eventLine(e); err == nil {
		_, _ = j.w.Write(line)
	}
}

// eventLine returns an event as a line of JSON.
func eventLine(e event.Event) ([]byte, error) {
	line, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return append(text.EscapeJSON(line), '\n'), nil
}

// Version has the versions of lockstep and its main dependencies.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // "" if unknown
	Modified bool   `json:"modified,omitempty"` // built with uncommitted changes
	Helm     string `json:"helm"`
	Client   string `json:"kubernetesClient"`
	Go       string `json:"go"`
}

func (v Version) jsonForm() any { return compact{v} }

func (v Version) text(Stream) string {
	commit := format.WithPrefix("commit ", v.Commit)
	if v.Modified {
		commit += " plus local changes" // never without a commit
	}
	parts := format.NonEmpty(commit, "Helm "+v.Helm, "Kubernetes client "+v.Client, v.Go)
	return "lockstep " + v.Version + " (" + strings.Join(parts, ", ") + ")\n"
}
