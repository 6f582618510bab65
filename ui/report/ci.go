package report

import (
	"fmt"
	"io"
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
