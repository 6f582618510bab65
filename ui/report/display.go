package report

import (
	"encoding/json"
	"fmt"
	"io"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Mode is a way to show what commands have to say.
type Mode string

const (
	ModeText Mode = "text"
	ModeJSON Mode = "json"
	ModeYAML Mode = "yaml" // as JSON, where Helm has it too
)

// Display shows what the commands have to say: to people as text, or to
// programs as JSON. What one of them tells stands beside what the other does.
type Display interface {
	Notices
	// Operation takes the events of an operation and tells of each as it
	// comes.
	Operation(Options) Consumer
	// Watch takes the events of a release that is watched.
	Watch() Consumer
	// Once takes them where only how things are in the end is asked for,
	// which Release then tells.
	Once() Consumer
	Release(*event.State, []Timing) error
	// Standing tells how a run stands, Answer what has become of a command to
	// one.
	Standing(*event.State) error
	Answer(event.Event) error
	// Status tells of a release what Helm has printed, and its groups.
	Status(helms []byte, groups []Group) error
	Plan(Plan) error
	Recovery(Recovery) error
	// Runs lists recorded runs, Run tells what is to be known of one, RunsDiff
	// how two differ.
	Runs([]Run) error
	Run(*Record) error
	RunsDiff(RunsDiff) error
	DryRun(DryRun) error
	Lint(Lint) error
	Written(Written) error
	Version(Version) error
	// Aside says to people what is no result: on stdout where nothing but
	// people reads that.
	Aside(text string)
	// Lines writes lines that people and programs read alike.
	Lines(...string) error
	// Text and Data are where others write text, and data that is piped to
	// other programs.
	Text() io.Writer
	Data() io.Writer
}

// New returns what shows things in a mode. Results go to out, all else to errs.
func New(mode Mode, out, errs Stream) Display {
	r := results{newNotices(errs), out}
	switch mode {
	case ModeJSON:
		r.out.Writer = escaped(out.disarmed())
		return machine{r}
	case ModeYAML:
		r.out.Writer = Safe(out.Writer)
		return yamlMachine{machine{r}}
	}
	return human{r, styled(out.disarmed(), out.Style)}
}

// results write what a command results in.
type results struct {
	notices
	out Stream
}

func (r results) Lines(lines ...string) error {
	for _, l := range lines {
		if err := write(Safe(r.out.Writer), clean(l)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// human tells people, in text.
type human struct {
	results
	text io.Writer
}

// machine tells programs, in JSON.
type machine struct{ results }

// yamlMachine is a machine that writes YAML where Helm does.
type yamlMachine struct{ machine }

// Notices are what is said besides the result, on stderr. They are for people
// in every mode.
type Notices interface {
	Note(text string)
	Warn(text string)
	// Warnings tells what is odd about a plan.
	Warnings([]plan.Warning)
	// Begin says that something has begun that takes a while, and returns
	// what says on the same line how it has ended.
	Begin(text string) (end func(text string))
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

func (n notices) Begin(text string) func(string) {
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

func (h human) Aside(text string) { fmt.Fprint(h.text, text) }

func (m machine) Aside(text string) { fmt.Fprint(m.errs, text) }

func (h human) Operation(o Options) Consumer {
	o.Style, o.Width = h.out.Style, h.out.Width
	text := NewText(h.text, h.errs, o)
	if h.out.CI == GitLab {
		return &sections{Consumer: text, w: h.out.Writer}
	}
	return text
}

func (m machine) Operation(Options) Consumer { return NewJSON(m.out) }

// Page writes a page of help.
func Page(w io.Writer, text string) { _ = write(Safe(w), text) } // who reads help may go away
