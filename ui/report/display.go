package report

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
)

// Mode is a way to show what commands have to say.
type Mode string

const (
	ModeText Mode = "text"
	ModeJSON Mode = "json"
	ModeYAML Mode = "yaml" // as JSON, where Helm has it too
)

// View is a value that a command results in. People get its text; programs get its JSON,
// or that of its Form where it has one.
type View interface {
	text(Stream) string
}

// formed is a View whose JSON form is another value; nil says nothing.
type formed interface{ form() any }

// compact is a JSON form that is written on one line.
type compact struct{ value any }

// Display shows what commands have to say: to people as text, or to programs as JSON.
type Display struct {
	notices
	mode  Mode
	out   Stream
	lines io.Writer // for people: what their text passes on its way out
}

// New returns what shows things in a mode. Results go to out, all else to errs.
func New(mode Mode, out, errs Stream) Display {
	d := Display{notices: newNotices(errs), mode: mode, out: out, lines: styled(out.disarmed(), out.Style)}
	switch mode {
	case ModeJSON:
		d.out.Writer = escaped(out.disarmed())
	case ModeYAML:
		d.out.Writer = Safe(out.Writer)
	}
	return d
}

// people reports whether people read the results.
func (d Display) people() bool { return d.mode == ModeText }

// Show shows a value.
func (d Display) Show(v View) error {
	if d.people() {
		if p, ok := v.(Plan); ok { // programs find them in it
			d.Warnings(p.Warnings)
		}
		return write(d.lines, v.text(d.out))
	}
	var form any = v
	if f, ok := v.(formed); ok {
		form = f.form()
	}
	switch f := form.(type) {
	case nil:
		return nil
	case compact:
		return encodeLine(d.out, f.value)
	}
	return encode(d.out, form)
}

// Lines writes lines that people and programs read alike.
func (d Display) Lines(lines ...string) error {
	for _, l := range lines {
		if err := write(Safe(d.out.Writer), clean(l)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Print says to people what is no result: on stdout where nothing but
// people reads that.
func (d Display) Print(text string) {
	if d.people() {
		fmt.Fprint(d.lines, text)
		return
	}
	fmt.Fprint(d.errs, text)
}

// Operation takes the events of an operation and tells of each as it comes.
func (d Display) Operation(o Options) Consumer {
	if !d.people() {
		return NewJSON(d.out)
	}
	o.Style, o.Width = d.out.Style, d.out.Width
	text := NewText(d.lines, d.errs, o)
	if d.out.CI == GitLab {
		return &sections{Consumer: text, w: d.out.Writer}
	}
	return text
}

// Watch takes the events of a release that is watched.
func (d Display) Watch() Consumer {
	if !d.people() {
		return NewJSON(d.out)
	}
	return &changes{out: d.lines, notices: d.notices, style: d.out.Style}
}

// Once takes them where only how things are in the end is asked for,
// which a Release then tells.
func (d Display) Once() Consumer {
	if !d.people() {
		return NewJSON(d.out)
	}
	return silent{}
}

// helmsColours matches what Helm colours: heads of tables, statuses, and namespaces.
var helmsColours = regexp.MustCompile(`\x1b\[(?:(?:1|3[1-3])m(?:[A-Z]+(?: [A-Z]+)?|deployed|failed|unknown|uninstalling|pending-[a-z]+)|36m[a-z0-9-]+)\x1b\[(?:0|22)(?:;(?:0|22))*m`)

// Text is where Helm writes text.
func (d Display) Text() io.Writer {
	return newBorder(d.out.disarmed(), func(s string) string { return keep(helmsColours, s) })
}

// Data is where data is written that is piped to other programs: to a terminal as
// text, elsewhere as it is.
func (d Display) Data() io.Writer {
	if d.out.Terminal {
		return Safe(d.out.Writer)
	}
	return d.out.Writer
}

// Notices are what is said besides the result, on stderr. They are for people
// in every mode.
type Notices interface {
	Note(text string)
	Warn(text string)
	// Warnings tells what is odd about a plan.
	Warnings([]plan.Warning)
	// Start announces something that takes a while. The function that it returns
	// finishes the line with its result.
	Start(text string) (end func(text string))
	// Error tells why a command failed, in its last line.
	Error(error)
}

// NewNotices returns Notices that are written to a stream.
func NewNotices(to Stream) Notices { return newNotices(to) }

func newNotices(to Stream) notices { return notices{styled(to.disarmed(), to.Style), to.Style} }

type notices struct {
	errs  io.Writer
	looks Style
}

func (n notices) Note(text string) { fmt.Fprintln(n.errs, text) }

func (n notices) Warn(text string) { fmt.Fprintln(n.errs, "warning:", text) }

func (n notices) Warnings(warnings []plan.Warning) {
	for _, w := range warnings {
		n.Warn(withRule(w))
	}
}

// withRule is a message with the rule that it falls under, if any.
func withRule(w plan.Warning) string {
	if w.Rule == "" {
		return w.Message
	}
	return w.Message + " (" + w.Rule + ")"
}

func (n notices) Start(text string) func(string) {
	fmt.Fprint(n.errs, text+" … ")
	return func(end string) { fmt.Fprintln(n.errs, end) }
}

func (n notices) Error(err error) {
	fmt.Fprintln(n.errs, n.looks.render(theme.Bad, "error:"), err)
}

// encode writes a value as JSON for people to read, too.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// encodeLine writes a value as JSON on one line.
func encodeLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// silent takes events and says nothing.
type silent struct{}

func (silent) Consume(event.Event) {}

// Page writes a page of help.
func Page(w io.Writer, text string) { _ = write(Safe(w), text) } // who reads help may go away

// JSON writes one event per line, as json.Marshal writes it, with all
// that is unsafe to show escaped; events.md documents every field. It goes on quietly where the writer fails.
type JSON struct{ w io.Writer }

// NewJSON returns a JSON that writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{w: w} }

// Consume writes an event.
func (j *JSON) Consume(e event.Event) { _ = writeEvent(j.w, e) }

// writeEvent writes a line in one Write, so that lines of several writers to
// one file do not mix.
func writeEvent(w io.Writer, e event.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text.EscapeJSON(line), '\n'))
	return err
}

// Version are the versions of the program and of what it is made of.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // "" where the build knew of none
	Modified bool   `json:"modified,omitempty"` // what was built was not just the commit
	Helm     string `json:"helm"`
	Client   string `json:"kubernetesClient"`
	Go       string `json:"go"`
}

func (v Version) form() any { return compact{v} }

func (v Version) text(Stream) string {
	return fmt.Sprintf("lockstep %s (%sHelm %s, Kubernetes client %s, %s)\n", v.Version, v.commit(), v.Helm, v.Client, v.Go)
}

// commit is what the text says of the commit.
func (v Version) commit() string {
	switch {
	case v.Commit == "":
		return ""
	case v.Modified:
		return "commit " + v.Commit + " with changes, "
	}
	return "commit " + v.Commit + ", "
}
