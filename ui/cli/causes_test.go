package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// cause is a problem in a cluster and its expected report. Add new ones to the tables of causes.
type cause struct {
	// name is the name of the case and of the group of its objects.
	name string
	// docs are the objects, separated by "---", in the namespace $NS.
	docs string
	// object is the reported object, as plan.Object prints it.
	object string
	// sentence and evidence are regular expressions: for the whole cause, and for part of a line of
	// evidence.
	sentence, evidence string
}

// causesRun is a chart with causes that are independent of each other.
type causesRun struct {
	t      *testing.T
	ns     string
	causes []cause
	unit   string // unit of the only cause; "" for its group
	text   string // the output
	exit   int
	events []event.Event
	cases  map[string]junitFailure // by group and object
	log    auditlog.Log
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// installCauses installs a chart of causes with lockstep and reads its output, record and report.
func installCauses(t *testing.T, ns string, causes []cause, flags ...string) *causesRun {
	t.Helper()
	s := &causesRun{t: t, ns: ns, causes: causes}
	s.run(append([]string{"install", "c", s.chart()}, flags...)...)
	return s
}

func (s *causesRun) run(args ...string) {
	s.t.Helper()
	cluster := testcluster.Get(s.t)
	state := s.t.TempDir()
	junit := filepath.Join(state, "junit.xml")
	env := []string{"KUBECONFIG=" + cluster.Kubeconfig, "XDG_STATE_HOME=" + state, "LOCKSTEP_ASCII=1"}
	s.events = nil
	s.text, s.exit, _ = runProgram(s.t, env, append(args, "-n", s.ns, "--no-tui", "--report", "junit="+junit)...)
	records, err := filepath.Glob(filepath.Join(state, "lockstep", "runs", "*.ndjson"))
	if err != nil || len(records) != 1 {
		s.t.Fatalf("%d records, %v; exit code %d\n%s", len(records), err, s.exit, s.text)
	}
	s.readEvents(records[0])
	s.readCases(junit)
	if s.log, err = cluster.Log(); err != nil {
		s.t.Fatal(err)
	}
	s.log = s.log.Where(func(e auditlog.Event) bool { return e.Object.Namespace == s.ns })
}

func (s *causesRun) readEvents(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil {
			s.t.Fatal(err)
		}
		s.events = append(s.events, e)
	}
}

func (s *causesRun) readCases(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Cases []struct {
				Class   string        `xml:"classname,attr"`
				Name    string        `xml:"name,attr"`
				Failure *junitFailure `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		s.t.Fatal(err)
	}
	s.cases = map[string]junitFailure{}
	for _, suite := range suites.Suites {
		for _, c := range suite.Cases {
			if c.Failure != nil {
				s.cases[c.Class+" "+c.Name] = *c.Failure
			}
		}
	}
}

// chart writes a chart with a group for each cause, and a group that waits for all of them.
func (s *causesRun) chart() string {
	s.t.Helper()
	var groups []string
	files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n"}
	for _, c := range s.causes {
		groups = append(groups, c.name)
		files["templates/"+c.name+".yaml"] = s.grouped(c)
	}
	names, _ := json.Marshal(groups)
	end, _ := json.Marshal(string(names))
	files["templates/end.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: end, annotations: {helm.sh/resource-group: end, helm.sh/depends-on-resource-groups: " + string(end) + "}}\n"
	return writeChart(s.t, files)
}

// grouped returns the objects of a cause with the annotation of their group.
func (s *causesRun) grouped(c cause) string {
	var out []string
	for _, doc := range strings.Split(strings.ReplaceAll(c.docs, "$NS", s.ns), "\n---\n") {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			s.t.Fatalf("%s: %v\n%s", c.name, err, doc)
		}
		u := unstructured.Unstructured{Object: o}
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[plan.AnnotationGroup] = c.name
		u.SetAnnotations(a)
		text, err := json.Marshal(o)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, strings.ReplaceAll(string(text), "{{", `{{"{{"}}`))
	}
	return strings.Join(out, "\n---\n")
}

// check checks the report of each cause in the output, the events and the report file.
func (s *causesRun) check() {
	s.t.Helper()
	if s.exit != command.ExitFailed {
		s.t.Errorf("exit code %d\n%s", s.exit, s.text)
	}
	for _, c := range s.causes {
		s.t.Run(c.name, func(t *testing.T) {
			line := s.checkEvents(t, c)
			s.checkText(t, c, line)
			s.checkJUnit(t, c, line)
		})
	}
}

// group returns the group for which a cause is reported.
func (s *causesRun) group(c cause) string { return cmp.Or(s.unit, "c:"+c.name) }

func (s *causesRun) object(c cause) string { return strings.ReplaceAll(c.object, "$NS", s.ns) }

func (s *causesRun) pattern(of string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(of, `\$NS`, regexp.QuoteMeta(s.ns)))
}

func (s *causesRun) wholeSentence(c cause) *regexp.Regexp {
	return s.pattern("^(?:" + c.sentence + ")$")
}

// checkEvents checks the events, and returns the line of evidence, or the part of the cause that says the same.
func (s *causesRun) checkEvents(t *testing.T, c cause) (line string) {
	t.Helper()
	sentence, evidence, diagnosed, failed := s.wholeSentence(c), s.pattern(c.evidence), false, false
	var others []string
	for _, e := range s.events {
		if e.Group != s.group(c) || e.Object == nil || e.Object.String() != s.object(c) || e.Cause == "" {
			continue
		}
		ends := e.Kind == event.KindGroup && e.Status == event.Failed
		failed = failed || ends
		if !sentence.MatchString(e.Cause) {
			if others = append(others, e.Cause); ends {
				t.Errorf("cause of the failure: %q\nwant %s\n%q", e.Cause, sentence, e.Evidence)
			}
			continue
		}
		if i := slices.IndexFunc(e.Evidence, evidence.MatchString); i >= 0 {
			line = e.Evidence[i]
		} else if line == "" {
			line = evidence.FindString(e.Cause)
		}
		diagnosed = diagnosed || e.Kind == event.KindDiagnosis
		if ends && !strings.Contains(e.Message, strings.TrimPrefix(e.Cause, "refused by the API server: ")) {
			t.Errorf("the message does not contain the cause: %q", e.Message)
		}
	}
	if !failed {
		t.Errorf("%s has not failed; reported causes: %q", s.object(c), others)
	}
	if !diagnosed {
		t.Errorf("no diagnosis has the cause; reported causes: %q", others)
	}
	if line == "" {
		t.Errorf("neither the evidence nor the cause matches %s", evidence)
	}
	return line
}

// checkText checks the output at the failure and, for a run with a single cause, the summary, which
// shows only some of many failures.
func (s *causesRun) checkText(t *testing.T, c cause, line string) {
	t.Helper()
	object := regexp.QuoteMeta(s.object(c) + ": ")
	if strings.HasSuffix(s.unit, ":"+s.object(c)) { // a hook's name has its object
		object = ""
	}
	failure := s.pattern(`(?m)` + regexp.QuoteMeta(s.group(c)) + ` failed[^:]*: ` + object + `(?:` + c.sentence + `)(?:$|; gave up after )`)
	if !failure.MatchString(s.text) {
		t.Errorf("no line of the output matches\n%s\n%s", failure, strings.Join(s.pattern(`(?m)^.*`+regexp.QuoteMeta(s.group(c))+` failed.*$`).FindAllString(s.text, -1), "\n"))
	}
	var out bytes.Buffer
	text := report.New(report.ModeText, report.Stream{Writer: &out}, report.Stream{Writer: &out}).Operation(report.Options{})
	for _, e := range s.events {
		if e.Group == "" || e.Group == s.group(c) {
			text.Consume(e)
		}
	}
	all := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := strings.Join(all[max(0, len(all)-15):], "\n")
	if summary := s.pattern(`(?m)^\S+ (?:` + regexp.QuoteMeta(s.object(c)) + ` in )?` + regexp.QuoteMeta(s.group(c)) + `: (?:` + c.sentence + `).*$`); !summary.MatchString(last) {
		t.Errorf("no line of the summary matches\n%s\n%s", summary, last)
	}
	if evidence := s.pattern(c.evidence); !containsLine(last, line) && !evidence.MatchString(last) || !containsLine(s.text, line) && !evidence.MatchString(s.text) {
		t.Errorf("the evidence %q is not printed:\n%s", line, last)
	}
}

// containsLine reports whether a text contains a line, or the larger part of the line after a ": ": words
// of the cause are not repeated.
func containsLine(text, line string) bool {
	for rest, ok := line, true; ok && 2*len(rest) >= len(line); _, rest, ok = strings.Cut(rest, ": ") {
		if strings.Contains(text, rest) {
			return true
		}
	}
	return false
}

func (s *causesRun) checkJUnit(t *testing.T, c cause, line string) {
	t.Helper()
	failure := s.cases[s.group(c)+" "+s.object(c)]
	if want := s.pattern(regexp.QuoteMeta(s.object(c)) + `: (?:` + c.sentence + `)`); !want.MatchString(failure.Message) {
		t.Errorf("message in the JUnit report: %q\nwant %s", failure.Message, want)
	}
	if !containsLine(failure.Text, line) && !s.pattern(c.evidence).MatchString(failure.Text) {
		t.Errorf("the JUnit report lacks the evidence %q:\n%s", line, failure.Text)
	}
}

// checkTimes logs when each cause was reported, and checks that few requests were needed for it.
func (s *causesRun) checkTimes() {
	var started, ended time.Time
	for _, e := range s.events {
		if e.Kind == event.KindObject && e.Status == event.Applied && started.IsZero() {
			started = e.Time
		}
		ended = e.Time
	}
	reads := len(s.log.UserAgent("lockstep").Where(func(e auditlog.Event) bool {
		return e.Received.After(started) && (e.Verb == "get" || e.Verb == "list") && e.Stage == auditlog.ResponseComplete
	}))
	duration := ended.Sub(started)
	s.t.Logf("%d reads in %s for %d causes", reads, duration.Round(time.Second), len(s.causes))
	if most := 20 * len(s.causes) * int(math.Ceil(duration.Minutes())); reads > most {
		s.t.Errorf("%d reads in %s: more than 20 a minute for each of %d stuck objects", reads, duration, len(s.causes))
	}
	for _, resource := range []string{"pods", "events"} {
		if len(s.log.UserAgent("lockstep").Where(func(e auditlog.Event) bool { return e.Verb == "watch" && e.Object.Resource == resource })) == 0 {
			s.t.Errorf("lockstep does not watch %s", resource)
		}
	}
	for _, c := range s.causes {
		sentence := s.wholeSentence(c)
		var reported time.Time
		for _, e := range s.events {
			if reported.IsZero() && e.Group == s.group(c) && e.Cause != "" && sentence.MatchString(e.Cause) {
				reported = e.Time
			}
		}
		_, name, _ := strings.Cut(s.object(c), "/")
		var known string
		for _, e := range s.log {
			if e.UserAgent != "lockstep" && e.Succeeded() && (e.Object.Name == name || strings.HasPrefix(e.Object.Name, name+"-") || strings.HasPrefix(e.Object.Name, name+".")) &&
				(e.Object.Resource == "events" || e.Object.Subresource == "status") && e.Verb != "get" && e.At.Before(reported) {
				known = fmt.Sprintf("%s %s %s", reported.Sub(e.At).Round(time.Millisecond), e.Verb, e.Object.Resource)
			}
		}
		if reported.IsZero() {
			continue
		}
		s.t.Logf("%-16s reported %6s after the first apply, %s", c.name, reported.Sub(started).Round(10*time.Millisecond), known)
	}
}
