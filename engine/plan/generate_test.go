package plan

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// source makes random choices: IntN(k) is one of 0 … k-1.
type source interface{ IntN(k int) int }

// script is a source that reads its choices from the bytes of a fuzz test. At their end it returns 0.
type script []byte

func (s *script) IntN(k int) int {
	if len(*s) == 0 {
		return 0
	}
	n := int((*s)[0]) % k
	*s = (*s)[1:]
	return n
}

var (
	names = []string{"a", "b", "c", "d", "e", "f", "no"}
	kinds = []string{"ConfigMap", "Service", "Deployment", "Job", "Widget", "Gadget", "Namespace", "CustomResourceDefinition"}
	odd   = []string{"", "x", `["a"`, `[1]`, "null", "1.5", "\x00", Unsequenced, `[" a ", "a"]`}
)

// list makes the value of a list annotation from some of the first k names.
func list(s source, k int) string {
	chosen := make([]string, s.IntN(3))
	for i := range chosen {
		chosen[i] = names[s.IntN(k)]
	}
	text, _ := json.Marshal(chosen)
	return string(text)
}

// makeChart makes a chart with subcharts down to a depth. Subcharts mostly wait for earlier siblings,
// so that many trees have no cycle.
func makeChart(s source, path string, depth int) *Chart {
	c := &Chart{Path: path}
	if depth == 0 {
		return c
	}
	for i := range s.IntN(4) {
		sub := Subchart{Name: names[i]}
		if s.IntN(8) == 0 {
			sub.Alias = "al-" + sub.Name
		}
		for range s.IntN(3) {
			if before := s.IntN(i + 1); before < i || s.IntN(16) == 0 {
				sub.DependsOn = append(sub.DependsOn, names[before])
			}
		}
		if s.IntN(8) > 0 {
			sub.Chart = makeChart(s, path+"/"+sub.ID(), depth-1)
		}
		if s.IntN(4) == 0 {
			c.DependsOn = append(c.DependsOn, sub.Name)
		}
		c.Subcharts = append(c.Subcharts, sub)
	}
	return c
}

// makeResources makes the resources of a chart tree. Groups mostly wait for earlier ones.
func makeResources(s source, c *Chart, resources *[]Resource) {
	f := s.IntN(5)
	for range s.IntN(8) {
		r := res(c.Path, fmt.Sprintf("%s/n%d/%s", kinds[s.IntN(len(kinds))], s.IntN(2), strconv.Itoa(len(*resources)-s.IntN(40)/39)))
		group := s.IntN(5)
		value := list(s, max(group, 1))
		if group == 0 {
			value = "[]"
		}
		if s.IntN(40) == 1 {
			value = odd[s.IntN(len(odd))]
		}
		switch f {
		case 0, 1:
			r.Annotations[in], r.Annotations[StoredKey(needs)] = names[group], value
		case 2:
			r.Annotations[layer], r.Annotations[above] = names[group], value
			if s.IntN(3) == 0 && len(c.Subcharts) > 0 {
				r.Annotations[uses] = c.Subcharts[s.IntN(len(c.Subcharts))].Name
			}
		case 3:
			r.Annotations[weight] = strconv.Itoa(group - 2)
		}
		switch s.IntN(40) {
		case 1:
			delete(r.Annotations, in)
		case 2:
			r.Annotations[in] = odd[s.IntN(len(odd))]
		}
		if s.IntN(4) == 1 {
			r.Annotations[before] = kinds[s.IntN(len(kinds))] + ", " + kinds[s.IntN(len(kinds))]
		}
		if r.Object.Kind == "CustomResourceDefinition" {
			r.Defines = GroupKind{"example.com", kinds[4+s.IntN(4)]}
		}
		*resources = append(*resources, r)
	}
	for _, sub := range c.Subcharts {
		if sub.Chart != nil {
			makeResources(s, sub.Chart, resources)
		}
	}
}

func makeInput(s source) (*Chart, []Resource) {
	root := makeChart(s, "shop", 1+s.IntN(2))
	var resources []Resource
	makeResources(s, root, &resources)
	return root, resources
}
