package charts

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// Spelling is a sequencing annotation that means something here and keeps a
// chart from being installed with Helm, which takes nothing but strings and
// sends every key to the API server as it is.
type Spelling struct {
	// Rule is the number of the rule that makes it fine here.
	Rule string
	// Key and Value are how it is written, Where on what for the first time;
	// Others counts the places after that.
	Key, Value, Where string
	Others            int
	// Both is the line that works in both programs.
	Both string
}

func (s Spelling) String() string {
	where := s.Where
	if s.Others > 0 {
		where += fmt.Sprintf(" and %d more", s.Others)
	}
	why := "it takes strings only"
	if s.Rule == "R3" {
		why = "the API server refuses a second slash"
	}
	return fmt.Sprintf("%s: Helm itself cannot install %s: %s, since %s; to keep the chart installable with both programs write %s",
		where, s.Key, s.Value, why, s.Both)
}

// spellings collects the spellings of one chart, each key once for each reason.
type spellings struct{ list []Spelling }

// text looks through the output of a template, before it is normalised.
func (s *spellings) text(text string) {
	for _, doc := range separator.Split(text, -1) {
		if !hinted(doc, orderingHints) {
			continue
		}
		if root := parse(doc); root != nil && len(root.Content) > 0 {
			s.object(resolve(root.Content[0]))
		}
	}
}

func (s *spellings) object(o *kyaml.Node) {
	metadata := child(o, "metadata")
	where := text(child(o, "kind")) + "/" + text(child(metadata, "name"))
	if annotations := child(metadata, "annotations"); annotations != nil && annotations.Kind == kyaml.MappingNode {
		for i := 0; i+1 < len(annotations.Content); i += 2 {
			if key := resolve(annotations.Content[i]).Value; sequencing[key] {
				s.annotation(where, key, resolve(annotations.Content[i+1]), plan.StoredKey(key) != key)
			}
		}
	}
	if items := child(o, "items"); items != nil {
		for _, item := range items.Content {
			s.object(resolve(item))
		}
	}
}

// chart looks at what the Chart.yaml files said before they were normalised. A
// Chart.yaml goes to no API server, so its keys may have two slashes.
func (s *spellings) chart(src *source, path string) {
	for _, r := range src.facts.restrung {
		s.annotation("Chart.yaml of "+path, r.Key, r.value, false)
	}
	for _, sub := range src.subs {
		s.chart(sub, path+"/"+sub.meta.Name)
	}
}

// annotation notes an annotation that Helm cannot install.
func (s *spellings) annotation(where, key string, value *kyaml.Node, slashes bool) {
	restrung, list := asString(value)
	if !list {
		restrung = text(value)
	}
	rule := "R3"
	if !slashes {
		rule = "R1"
	}
	if strings.TrimSpace(restrung) == "" || !list && !slashes {
		return
	}
	for i := range s.list {
		if f := &s.list[i]; f.Key == key && f.Rule == rule {
			f.Others++
			return
		}
	}
	s.list = append(s.list, Spelling{
		Rule: rule, Key: key, Value: inline(value), Where: where,
		Both: plan.StoredKey(key) + ": '" + strings.ReplaceAll(restrung, "'", "''") + "'",
	})
}
