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

// CI is the CI system that runs lockstep and reads its output, or "".
type CI string

const (
	// GitHub executes lines that start with "::" (workflow commands). lockstep writes
	// annotations; text of a chart must not contain commands.
	GitHub CI = "github"
	// GitLab folds sections of the log.
	GitLab CI = "gitlab"
)

// CIFromEnv detects the system by its environment variables.
func CIFromEnv(getenv func(string) string) CI {
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		return GitHub
	case getenv("GITLAB_CI") != "":
		return GitLab
	}
	return ""
}

// Outcomes writes the outcome of an operation for other programs: the files of --report,
// GitHub annotations and the job summary.
type Outcomes struct {
	files  files
	github *annotations // nil elsewhere
	over   bool
}

// OutcomesOptions are for NewOutcomes.
type OutcomesOptions struct {
	Files []string // arguments of --report
	// Errs gets the annotations: unlike stdout it is rarely redirected to a file.
	Errs Stream
	// Summary is the file of the job summary, or "".
	Summary string
	// File, if set, returns the file of a chart, relative to the repository, or "".
	File func(chart string) string
}

// NewOutcomes returns an error if a file cannot be written.
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

// End writes the outcome. The error names the files that could not be written.
func (o *Outcomes) End(outcome *Outcome) error {
	o.over = true
	err := o.files.write(outcome)
	if o.github != nil {
		err = errors.Join(err, o.github.write(outcome))
	}
	return err
}

// maxAnnotations is the number of annotations of a kind that GitHub shows for a step.
const maxAnnotations = 10

// annotations writes GitHub annotations and the job summary.
type annotations struct {
	w       io.Writer
	summary string
	file    func(chart string) string
}

func (a *annotations) write(o *Outcome) error {
	for _, w := range o.Warnings[:min(len(o.Warnings), maxAnnotations)] {
		a.annotate("warning", "", o.title(), w.text())
	}
	switch {
	case o.Status == event.Succeeded:
	case len(o.Failures) == 0:
		a.annotate("error", a.chartFile(""), o.title()+" "+o.verb(), o.Message)
	default:
		for _, f := range o.Failures[:min(len(o.Failures), maxAnnotations)] {
			lines := append([]string{f.Text}, unknownLines(f.Evidence, []string{f.Text})...)
			a.annotate("error", a.chartFile(o.failedChart(f)), o.title()+" "+o.verb()+" at "+f.place, lines...)
		}
	}
	if a.summary == "" {
		return nil
	}
	f, err := os.OpenFile(a.summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(append(o.markdown(), '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot write the job summary: %w", err)
	}
	return nil
}

func (a *annotations) chartFile(chart string) string {
	if a.file == nil {
		return ""
	}
	return a.file(chart)
}

// failedChart returns the chart path of a failure.
func (o *Outcome) failedChart(f Failure) string {
	for _, g := range o.Groups {
		if g.Phase == f.Phase && g.ID == f.Group {
			return g.state.Chart
		}
	}
	return ""
}

// annotate writes a workflow command. It escapes the text, so that it cannot contain
// another command.
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

// workflowCommand matches text that GitHub would run as a command.
var workflowCommand = regexp.MustCompile(`(?m)^\s*::|##\[`)

// withoutCommands returns a writer that breaks up workflow commands, so that the text of a
// chart cannot add annotations or mask words in the log. Each Write must be whole lines.
func (s Stream) withoutCommands() io.Writer {
	if s.CI != GitHub {
		return s.Writer
	}
	return writerFunc(func(p []byte) (int, error) {
		text := workflowCommand.ReplaceAllFunc(p, func(found []byte) []byte {
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

// sections puts each phase into a section of GitLab's log.
type sections struct {
	Consumer
	w    io.Writer
	open string
}

var notSectionName = regexp.MustCompile(`[^a-z0-9]+`)

// Consume opens and closes the sections around the events.
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
	return "lockstep_" + notSectionName.ReplaceAllString(strings.ToLower(phase), "_")
}
