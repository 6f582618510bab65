package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/event"
)

// CI is the system that runs this program and reads what it prints, empty where
// there is none that is known.
type CI string

const (
	// GitHub takes lines that begin with "::" as orders: annotations, and such
	// as nobody else may give.
	GitHub CI = "github"
	// GitLab folds what stands between two marks.
	GitLab CI = "gitlab"
)

// CIFromEnv is the system that the environment tells of.
func CIFromEnv(getenv func(string) string) CI {
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		return GitHub
	case getenv("GITLAB_CI") != "":
		return GitLab
	}
	return ""
}

// Outcomes tell other programs what has become of an operation: the files of
// --report, GitHub's annotations and the summary of its job.
type Outcomes struct {
	files  files
	github *annotations // nil elsewhere
	over   bool
}

// OutcomesOptions say who is told.
type OutcomesOptions struct {
	Files []string // as --report has them
	// Errs is where annotations go: nobody sends it to a file and loses them.
	Errs Stream
	// Summary is the file of the job's summary, or empty.
	Summary string
	// File is the file that a chart stands in, from the root of the repository,
	// or empty.
	File func(chart string) string
}

// NewOutcomes returns an error where a file cannot be written.
func NewOutcomes(o OutcomesOptions) (*Outcomes, error) {
	files, err := newFiles(o.Files)
	if err != nil {
		return nil, err
	}
	out := &Outcomes{files: files}
	if o.Errs.CI == GitHub {
		out.github = &annotations{w: Safe(o.Errs.Writer), summary: o.Summary, file: o.File}
	}
	return out, nil
}

// Over reports whether End was called.
func (o *Outcomes) Over() bool { return o.over }

// End tells what has become of the operation. The error is about files that could
// not be written; the others were.
func (o *Outcomes) End(what *Outcome) error {
	o.over = true
	err := o.files.write(what)
	if o.github != nil {
		err = errors.Join(err, o.github.end(what))
	}
	return err
}

// mostAnnotations is how many of a kind GitHub shows of one step.
const mostAnnotations = 10

// annotations are shown by GitHub on the page of a run, and where they name a
// file beside its text.
type annotations struct {
	w       io.Writer
	summary string
	file    func(chart string) string
}

func (a *annotations) end(o *Outcome) error {
	for _, w := range o.Warnings[:min(len(o.Warnings), mostAnnotations)] {
		a.annotate("warning", "", o.what(), w.text())
	}
	switch {
	case o.Status == event.Succeeded:
	case len(o.Failures) == 0:
		a.annotate("error", a.fileOf(""), o.what()+" "+o.went(), o.Message)
	default:
		for _, f := range o.Failures[:min(len(o.Failures), mostAnnotations)] {
			lines := append([]string{f.Text}, unsaid(f.Evidence, []string{f.Text})...)
			a.annotate("error", a.fileOf(o.chartOf(f)), o.what()+" "+o.went()+" at "+f.place, lines...)
		}
	}
	if a.summary == "" {
		return nil
	}
	f, err := os.OpenFile(a.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(append(o.Markdown(), '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("the job's summary could not be written: %w", err)
	}
	return nil
}

func (a *annotations) fileOf(chart string) string {
	if a.file == nil {
		return ""
	}
	return a.file(chart)
}

// chartOf is the path of the chart that a failure is in.
func (o *Outcome) chartOf(f Failure) string {
	for _, g := range o.Groups {
		if g.Phase == f.Phase && g.ID == f.Group {
			return g.state.Chart
		}
	}
	return ""
}

// annotate gives an order, in which text from elsewhere can give no other.
func (a *annotations) annotate(level, file, title string, lines ...string) {
	where := "title=" + escapeProperty(title)
	if file != "" {
		where = "file=" + escapeProperty(file) + "," + where
	}
	fmt.Fprintf(a.w, "::%s %s::%s\n", level, where, escapeData(cleanLines(lines)))
}

func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(clean(s)))
}

// orders match what GitHub would take for an order.
var orders = regexp.MustCompile(`(?m)^\s*::|##\[`)

// disarmed returns a writer of text to a stream in which nothing is an order to
// the system that reads it: the text of a chart is not to end the annotations of
// others, or hide words in the log. A line has to come in one piece; in JSON only
// the words inside of strings can be meant.
func (s Stream) disarmed() io.Writer {
	if s.CI != GitHub {
		return s.Writer
	}
	return writerFunc(func(p []byte) (int, error) {
		text := orders.ReplaceAllFunc(p, func(found []byte) []byte {
			last := len(found) - 1
			return slices.Concat(found[:last], []byte{' '}, found[last:])
		})
		if _, err := s.Write(text); err != nil {
			return 0, err
		}
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// sections puts what is told of a phase into a section of GitLab's log.
type sections struct {
	Consumer
	w    io.Writer
	open string
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// Consume tells of an event, inside of the section that it belongs to.
func (s *sections) Consume(e event.Event) {
	switch {
	case e.Kind == event.KindOperation:
		s.close(e)
	case e.Kind == event.KindGroup && e.Status == event.Running && e.Phase != s.open:
		s.close(e)
		s.open = e.Phase
		fmt.Fprintf(s.w, "\x1b[0Ksection_start:%d:%s\r\x1b[0K%s\n", e.Time.Unix(), sectionName(e.Phase), clean(e.Phase))
	}
	s.Consumer.Consume(e)
}

func (s *sections) close(e event.Event) {
	if s.open != "" {
		fmt.Fprintf(s.w, "\x1b[0Ksection_end:%d:%s\r\x1b[0K\n", e.Time.Unix(), sectionName(s.open))
	}
	s.open = ""
}

func sectionName(phase string) string {
	return "lockstep_" + notInName.ReplaceAllString(strings.ToLower(phase), "_")
}
