package board

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/theme"
)

// changesOfUpgrade are the diffs that the cluster returns at the breakpoint of sandbox-upgrade.
func changesOfUpgrade(o *Options) {
	o.Inspector = &answerer{changes: map[string]inspect.Change{
		"ServiceAccount/shop-api": {Action: inspect.Unchanged},
		"Service/shop-api":        {Action: inspect.Unchanged},
		"Deployment/shop-api": {Action: inspect.Modify, Fields: []inspect.Field{
			{In: "spec.template.spec.containers[api]", Lines: []string{"-image: example/shop-api:1.0.0", "+image: example/shop-api:1.1.0"}},
		}},
	}}
}

// frame is a frame of an animation: the screen, how long it is shown, and the key pressed before it.
type frame struct {
	content string
	lasts   time.Duration
	key     string
}

// The minimum and maximum duration of a frame, whatever the run took.
const (
	shortestFrame = 350 * time.Millisecond
	longestFrame  = 1200 * time.Millisecond
	lastFrame     = 4 * time.Second
)

// keyOf holds the keys that send commands, with the board's words for them.
var keyOf = map[event.CommandName]string{event.Step: "n  step", event.Resume: "c  resume"}

// stepped returns the frames of a stepped upgrade: one for each status change of a group or of the
// run. At the breakpoint it opens the diff.
func stepped(t *testing.T, w, h int, look theme.Options) (frames []frame) {
	events := recorded(t, "sandbox-upgrade", 0)
	s := view{run: "sandbox-upgrade", n: 1, opts: []func(*Options){changesOfUpgrade}}.open(t, w, h, look)
	show := func(lasts time.Duration, key string) {
		if content := s.View().Content; len(frames) == 0 || frames[len(frames)-1].content != content {
			frames = append(frames, frame{content, lasts, key})
		}
	}
	from, key := 1, ""
	for n := 1; n < len(events); n++ {
		e := events[n]
		if e.Kind == event.KindCommand && keyOf[e.Command] != "" {
			key = keyOf[e.Command]
		}
		if e.Kind != event.KindGroup && e.Kind != event.KindRun && e.Kind != event.KindOperation {
			continue
		}
		lasts := lastFrame
		if n+1 < len(events) {
			next := slices.IndexFunc(events[n+1:], func(e event.Event) bool { return e.Kind == event.KindGroup || e.Kind == event.KindRun })
			if lasts = events[n+1+max(next, 0)].Time.Sub(e.Time); lasts < shortestFrame/2 {
				continue // the next one shows it as well
			}
			lasts = min(max(lasts, shortestFrame), longestFrame)
		}
		s.feed(events[from : n+1]...)
		s.settle() // the comparison of the next objects
		from = n + 1
		show(lasts, key)
		key = ""
		if e.Kind == event.KindRun && strings.HasPrefix(e.Message, "breakpoint") {
			s.press("enter")
			s.settle()
			show(2*longestFrame, "enter  inspect")
			s.press("esc", "F")
			show(shortestFrame, "esc  close")
		}
	}
	return frames
}

// animate draws frames as one looping SVG (SMIL, no script). Elements that several frames share are
// drawn once and are visible in those frames.
func animate(frames []frame, w, h int, light bool) []byte {
	fg, bg := groundOf(light)
	const caption = 26
	pieces := map[string][]bool{} // by their markup, the frames that have them
	var order []string
	total := time.Duration(0)
	for n, f := range frames {
		total += f.lasts
		list := draw(f.content, w, h, fg, bg)
		if f.key != "" {
			list = append(list, fmt.Sprintf(`<text x="%d" y="%d" fill="#8AB4FF" font-weight="bold">%s</text>`+"\n", margin, margin+h*cellHeight+caption-8, escapeXML(f.key)))
		}
		for _, p := range list {
			if pieces[p] == nil {
				pieces[p] = make([]bool, len(frames))
				order = append(order, p)
			}
			pieces[p][n] = true
		}
	}
	var out bytes.Buffer
	begin(&out, w, float64(h*cellHeight+caption), bg)
	byTime := map[string][]string{} // pieces by when they are visible
	var times []string
	for _, p := range order {
		when := visible(pieces[p], frames, total)
		if byTime[when] == nil {
			times = append(times, when)
		}
		byTime[when] = append(byTime[when], p)
	}
	shown := len(frames) - 1 // where nothing moves, the end is shown
	for _, when := range times {
		if when == "" {
			fmt.Fprint(&out, strings.Join(byTime[when], ""))
			continue
		}
		hidden := ` visibility="hidden"`
		if pieces[byTime[when][0]][shown] {
			hidden = ""
		}
		fmt.Fprintf(&out, "<g%s>%s%s</g>\n", hidden, when, strings.Join(byTime[when], ""))
	}
	fmt.Fprintln(&out, "</g>\n</svg>")
	return out.Bytes()
}

// visible returns the animation of an element that only some frames show, "" if all do.
func visible(in []bool, frames []frame, total time.Duration) string {
	if !slices.Contains(in, false) {
		return ""
	}
	var values, times []string
	at := time.Duration(0)
	for n, f := range frames {
		if n == 0 || in[n] != in[n-1] {
			value := "hidden"
			if in[n] {
				value = "visible"
			}
			values = append(values, value)
			times = append(times, fmt.Sprint(math.Round(float64(at)/float64(total)*1e4)/1e4))
		}
		at += f.lasts
	}
	return fmt.Sprintf(`<animate attributeName="visibility" calcMode="discrete" dur="%gs" repeatCount="indefinite" values="%s" keyTimes="%s"/>`, total.Seconds(), strings.Join(values, ";"), strings.Join(times, ";"))
}

// mostAnimated limits the size of an animated picture in bytes.
const mostAnimated = 400 << 10

// TestPicturesAnimated checks that the animated picture of README.md shows a stepped upgrade as the
// screen shows it, and that the file is small.
func TestPicturesAnimated(t *testing.T) { inBubble(t, testPicturesAnimated) }

func testPicturesAnimated(t *testing.T) {
	const w, h = 110, 26
	frames := stepped(t, w, h, dark)
	got := animate(frames, w, h, false)
	if len(got) > mostAnimated {
		t.Errorf("%d bytes for %d frames", len(got), len(frames))
	}
	if again := animate(stepped(t, w, h, dark), w, h, false); !bytes.Equal(got, again) {
		t.Error("animate draws a different picture each time")
	}
	if bytes.Contains(got, []byte("<script")) {
		t.Error("the picture contains a script")
	}
	if !bytes.Contains(got, []byte("example/shop-api:1.1.0")) {
		t.Error("the picture does not show the diff at the breakpoint")
	}
	keep(t, "stepping", got)
}
