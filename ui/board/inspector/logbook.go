package inspector

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

const maxLogLines = 5000

// logBook holds the last log lines, sorted by time, and the filter on them.
type logBook struct {
	lines   []inspect.LogLine
	sources []event.Source // in the order of their first line
	only    event.Source   // the filter; empty fields match all
}

func (b *logBook) add(lines []inspect.LogLine) {
	sorted := true
	for _, l := range lines {
		if !slices.Contains(b.sources, l.Source) {
			b.sources = append(b.sources, l.Source)
		}
		if n := len(b.lines); n > 0 && l.Time.Before(b.lines[n-1].Time) {
			sorted = false
		}
		b.lines = append(b.lines, l)
	}
	if !sorted {
		slices.SortStableFunc(b.lines, func(a, c inspect.LogLine) int { return a.Time.Compare(c.Time) })
	}
	if n := len(b.lines); n > maxLogLines {
		b.lines = slices.Clone(b.lines[n-maxLogLines:])
	}
}

// pods returns the pods with a log, containers the containers of the visible pods.
func (b *logBook) pods() []string {
	return b.names(event.Source{}, func(s event.Source) string { return s.Pod })
}

func (b *logBook) containers() []string {
	return b.names(event.Source{Pod: b.only.Pod}, func(s event.Source) string { return s.Container })
}

// names returns the distinct names of the sources that match a filter.
func (b *logBook) names(of event.Source, name func(event.Source) string) (names []string) {
	for _, s := range b.sources {
		if n := name(s); n != "" && s.Matches(of) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// cycle returns the name before or after now, cyclically. If now is not in names, it returns the last or
// the first.
func cycle(names []string, now string, by int) string {
	if len(names) == 0 {
		return now
	}
	at := slices.Index(names, now)
	if at < 0 && by < 0 {
		at = 0
	}
	return names[(at+by+len(names))%len(names)]
}

// CyclePod shows only the logs of the next or previous pod, CycleContainer those of the next or
// previous container, AllLogs all logs.
func (i *Inspector) CyclePod(by int) {
	i.filterLogs(event.Source{Pod: cycle(i.logs.pods(), i.logs.only.Pod, by)})
}

func (i *Inspector) CycleContainer(by int) {
	i.filterLogs(event.Source{Pod: i.logs.only.Pod, Container: cycle(i.logs.containers(), i.logs.only.Container, by)})
}

func (i *Inspector) AllLogs() { i.filterLogs(event.Source{}) }

func (i *Inspector) filterLogs(only event.Source) {
	i.logs.only = only
	i.Page.Top, i.Page.End = i.Page.Last, true
}

// SeveralPods and SeveralContainers report whether there is more than one in the open logs.
func (i *Inspector) SeveralPods() bool { return i.Tab == TabLogs && len(i.logs.pods()) > 1 }

func (i *Inspector) SeveralContainers() bool { return i.Tab == TabLogs && len(i.logs.containers()) > 1 }

func (i *Inspector) LogsFiltered() bool { return i.Tab == TabLogs && i.logs.only != event.Source{} }

func (i *Inspector) HasTimes() bool {
	return i.Tab == TabLogs && slices.ContainsFunc(i.logs.lines, func(l inspect.LogLine) bool { return !l.Time.IsZero() })
}

// heading describes a source: number of the pod, container, restarts, name of the pod.
func (b *logBook) heading(s event.Source, dot string) string {
	pod, restart := "", ""
	if s.Pod != "" {
		pods := b.pods()
		pod = fmt.Sprintf("pod %d/%d", slices.Index(pods, s.Pod)+1, len(pods))
	}
	if s.Instance > 1 {
		restart = fmt.Sprintf("restart %d", s.Instance-1)
	}
	return text.Join(" "+dot+" ", pod, s.Container, restart, s.Pod)
}

// head describes the visible logs, "" if there are none.
func (b *logBook) head(dot string) string {
	last := event.Source{}
	for _, s := range b.sources {
		if s.Pod != "" && s.Matches(b.only) {
			last = s
		}
	}
	pods, containers, only := b.pods(), b.containers(), b.only
	if len(pods) == 1 {
		only.Pod = pods[0]
	}
	switch {
	case last.Pod == "":
		return ""
	case only.Pod == "" && only.Container == "":
		return allOf(len(pods), "pods")
	case only.Pod == "":
		return allOf(len(pods), "pods") + " " + dot + " " + only.Container
	case only.Container == "" && len(containers) > 1:
		only.Container = allOf(len(containers), "containers")
		return b.heading(only, dot)
	case only.Container == "" && len(containers) == 1:
		only.Container = containers[0]
	}
	only.Instance = last.Instance
	return b.heading(only, dot)
}

// allOf counts things: "both pods", "all 3 pods".
func allOf(n int, things string) string {
	if n == 2 {
		return "both " + things
	}
	return fmt.Sprintf("all %d %s", n, things)
}

// logLines returns the visible lines of the logs. If there are several sources, each has a heading before
// its first line and a tag on every line.
func (i *Inspector) logLines(width int) []canvas.Line {
	var out []canvas.Line
	b, l := &i.logs, i.Theme.Lines
	pods, containers := b.pods(), b.containers()
	shown, tag := 0, 0
	for _, s := range b.sources {
		if s.Pod != "" && s.Matches(b.only) {
			shown++
			tag = max(tag, canvas.Width(b.tag(s, pods, containers)))
		}
	}
	started := map[event.Source]bool{}
	for _, line := range b.lines {
		if !line.Matches(b.only) || line.Note && line.Text == "" {
			continue
		}
		if shown > 1 && !started[line.Source] && line.Pod != "" {
			started[line.Source] = true
			out = append(out, canvas.Plain(theme.Strong, canvas.Fit(strings.Repeat(l.Rest, 2)+" "+b.heading(line.Source, l.Dot), width, l.Ellipsis)))
		}
		before := ""
		if tag > 0 {
			before = canvas.Pad(b.tag(line.Source, pods, containers), tag) + " " + l.Light[theme.ArmUp|theme.ArmDown] + " "
		}
		if i.Times && !line.Time.IsZero() {
			before += line.Time.Local().Format("15:04:05.000 ")
		}
		role := theme.Text
		if line.Note {
			role = theme.Quiet
		}
		out = i.appendLine(out, before, role, line.Text, width)
	}
	return out
}

// tag tells a source from the other visible ones.
func (b *logBook) tag(s event.Source, pods, containers []string) string {
	var parts []string
	if b.only.Pod == "" && len(pods) > 1 {
		parts = append(parts, fmt.Sprint(slices.Index(pods, s.Pod)+1))
	}
	if b.only.Container == "" && len(containers) > 1 {
		parts = append(parts, s.Container)
	}
	return strings.Join(parts, " ")
}

// appendLine appends a line; it wraps the line unless Cut is set.
func (i *Inspector) appendLine(out []canvas.Line, before string, role theme.Role, text string, width int) []canvas.Line {
	room := max(width-canvas.Width(before), 8)
	lines := []string{text}
	if !i.Cut && len(text) > room {
		lines = canvas.Wrap(text, room)
	}
	for n, part := range lines {
		if n > 0 {
			before = strings.Repeat(" ", canvas.Width(before))
		}
		out = append(out, canvas.Line{{Role: theme.Quiet, Text: before}, {Role: role, Text: part}})
	}
	return out
}
