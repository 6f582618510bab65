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

// CI is the CI system that runs lockstep and shows its output, or "".
type CI string

const (
	// GitHub executes lines that start with "::" (workflow commands). lockstep writes
	// annotations as such commands, and breaks up those in text from charts and clusters.
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
	opts  OutcomesOptions
	files []reportFile
	ended bool
}

// OutcomesOptions are for NewOutcomes.
type OutcomesOptions struct {
	Files []string // arguments of --report
	// Errs gets the annotations: unlike stdout, it is rarely redirected to a file.
	Errs Stream
	// Summary is the file of the job summary, or "".
	Summary string
	// File, if set, returns the file of a chart, relative to the repository, or "".
	File func(chart string) string
}

// NewOutcomes checks that the files can be written.
func NewOutcomes(o OutcomesOptions) (*Outcomes, error) {
	files, err := newFiles(o.Files)
	return &Outcomes{opts: o, files: files}, err
}

// Ended reports whether End was called.
func (o *Outcomes) Ended() bool { return o.ended }

// End writes the outcome. The error names the files that could not be written.
func (o *Outcomes) End(outcome *Outcome) error {
	o.ended = true
	var errs []error
	for _, file := range o.files {
		if err := file.write(formats[file.format](outcome)); err != nil {
			errs = append(errs, fmt.Errorf("cannot write the %s report: %w", file.format, err))
		}
	}
	if o.opts.Errs.CI == GitHub {
		o.annotateAll(outcome)
		if err := o.appendSummary(outcome); err != nil {
			errs = append(errs, fmt.Errorf("cannot write the job summary: %w", err))
		}
	}
	return errors.Join(errs...)
}

// appendSummary adds the outcome to the job summary, if there is one.
func (o *Outcomes) appendSummary(outcome *Outcome) error {
	if o.opts.Summary == "" {
		return nil
	}
	f, err := os.OpenFile(o.opts.Summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(outcome.markdown(), '\n'))
	return errors.Join(err, f.Close())
}

// maxAnnotations is the number of annotations of a kind that GitHub shows for a step.
const maxAnnotations = 10

// annotateAll writes the warnings and failures as GitHub annotations.
func (o *Outcomes) annotateAll(outcome *Outcome) {
	title := outcome.title()
	for _, w := range outcome.Warnings[:min(len(outcome.Warnings), maxAnnotations)] {
		o.annotate("warning", "", title, w.text())
	}
	if outcome.Status == event.Succeeded {
		return
	}
	title += " " + outcome.verb()
	if len(outcome.Failures) == 0 {
		o.annotate("error", o.chartFile(""), title, outcome.Message)
	}
	for _, f := range outcome.Failures[:min(len(outcome.Failures), maxAnnotations)] {
		lines := append([]string{f.Text}, unknownLines(f.Evidence, []string{f.Text})...)
		o.annotate("error", o.chartFile(f.group.Chart), title+" at "+f.place, lines...)
	}
}

func (o *Outcomes) chartFile(chart string) string {
	if o.opts.File == nil {
		return ""
	}
	return o.opts.File(chart)
}

// annotate writes a workflow command. It escapes the text, so that it cannot contain another command.
func (o *Outcomes) annotate(level, file, title string, lines ...string) {
	where := strings.Join(nonEmpty(prefixed("file=", escapeProperty(file)), "title="+escapeProperty(title)), ",")
	fmt.Fprintf(Safe(o.opts.Errs.Writer), "::%s %s::%s\n", level, where, escapeData(cleanLines(lines)))
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
	return commandBreaker{s.Writer}
}

type commandBreaker struct{ w io.Writer }

func (c commandBreaker) Write(p []byte) (int, error) {
	text := workflowCommand.ReplaceAllFunc(p, func(found []byte) []byte {
		last := len(found) - 1
		return slices.Concat(found[:last], []byte{' '}, found[last:])
	})
	if _, err := c.w.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

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
