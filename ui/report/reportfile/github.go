package reportfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// GitHub is the step of GitHub Actions that runs lockstep.
type GitHub struct {
	// Log gets the annotations. Use stderr: stdout is often redirected to a file.
	Log io.Writer
	// Summary is the file of the job summary, or "".
	Summary string
	// ChartFile returns the Chart.yaml of a chart, relative to the repository, or "" if it is not in there.
	// The chart "" is the root chart.
	ChartFile func(chart string) string
}

// appendSummary appends the Markdown report to the job summary.
func (g *GitHub) appendSummary(o *Outcome) error {
	if g.Summary == "" {
		return nil
	}
	f, err := os.OpenFile(g.Summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(o.markdown(), '\n'))
	return errors.Join(err, f.Close())
}

// maxAnnotations is the number of annotations of a kind that GitHub shows for a step.
const maxAnnotations = 10

// annotateAll writes the warnings and failures as annotations. It ignores write errors.
func (g *GitHub) annotateAll(o *Outcome) {
	title := o.Operation.Title()
	for _, w := range o.Warnings[:min(len(o.Warnings), maxAnnotations)] {
		g.annotate("warning", "", title, w.text())
	}
	if o.Status == event.Succeeded {
		return
	}
	title += " " + o.verb()
	if len(o.Failures) == 0 {
		g.annotate("error", g.ChartFile(""), title, o.Message)
	}
	for _, f := range o.Failures[:min(len(o.Failures), maxAnnotations)] {
		lines := append([]string{f.Text}, format.UnknownLines(f.Evidence, []string{f.Text})...)
		g.annotate("error", g.ChartFile(f.State.Chart), title+" at "+f.Place, lines...)
	}
}

// annotate writes an annotation as a workflow command. It escapes the text, so that it cannot contain another command.
func (g *GitHub) annotate(level, file, title string, lines ...string) {
	properties := strings.Join(format.NonEmpty(format.WithPrefix("file=", escapeProperty(file)), "title="+escapeProperty(title)), ",")
	fmt.Fprintf(g.Log, "::%s %s::%s\n", level, properties, escapeData(cleanLines(lines)))
}

func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(text.Line(s)))
}
