package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/kube/connect"
)

// TestDifferences (S18): who owns a field decides whether another value of it is drift. Where that is unknown, the values decide.
// Keep makes each difference go away.
func TestDifferences(t *testing.T) {
	const helm, other = connect.FieldManager, "other"
	for name, tt := range map[string]struct {
		recorded, live string
		owners         map[string]string // fields, by manager
		want           string
	}{
		"equal":                            {"{spec: {a: 1}}", "{spec: {a: 1, b: 2}}", nil, ""},
		"changed":                          {"{spec: {a: 1}}", "{spec: {a: 2}}", map[string]string{helm: `{"f:spec":{"f:b":{}}}`, other: `{"f:spec":{"f:a":{}}}`}, "/spec/a spec.a: 1 → 2 by other"},
		"written by Helm in another form":  {"{spec: {a: 1}}", "{spec: {a: 2}}", map[string]string{helm: `{"f:spec":{"f:a":{}}}`}, ""},
		"changed and changed back":         {"{spec: {a: 1}}", "{spec: {a: 1}}", map[string]string{other: `{"f:spec":{"f:a":{}}}`}, ""},
		"unknown owners":                   {"{spec: {a: 1, b: 1}}", "{spec: {a: 2, b: 1}}", nil, "/spec/a spec.a: 1 → 2 by "},
		"gone":                             {"{spec: {a: {b: 1}}}", "{spec: {}}", nil, `/spec/a spec.a: {"b":1} → null by `},
		"null is not sent":                 {"{spec: {a: null}}", "{spec: {}}", nil, ""},
		"status does not count":            {"{status: {a: 1}}", "{status: {a: 2}}", nil, ""},
		"names with slashes":               {"{metadata: {annotations: {a/b.c~d: x}}}", "{metadata: {annotations: {a/b.c~d: z}}}", nil, `/metadata/annotations/a~1b.c~0d metadata.annotations[a/b.c~d]: "x" → "z" by `},
		"an element by its key":            {"{l: [{name: a, v: 1}, {name: b, v: 1}]}", "{l: [{name: theirs}, {name: b, v: 2}, {name: a, v: 1}]}", keys(helm, "a", other, "b"), `/l/1/v l[b].v: 1 → 2 by other`},
		"an element is gone":               {"{l: [{name: a, v: 1}, {name: b, v: 1}]}", "{l: [{name: a, v: 1}]}", keys(helm, "a", other, "x"), `/l/1 l[b]: {"name":"b","v":1} → null by `},
		"an element has another key":       {"{l: [{name: a, port: 1}, {name: b, port: 2}]}", "{l: [{name: a, port: 1}, {name: b, port: 3}]}", ports(helm, 1, other, 3), `/l/1 l[b]: {"name":"b","port":2} → null by ; /l/1/port l[b].port: 2 → 3 by other`},
		"the only element has another key": {"{l: [{port: 2}]}", "{l: [{port: 3}]}", ports(helm, 1, other, 3), `/l/0 l[0]: {"port":2} → null by ; /l/0/port l[0].port: 2 → 3 by other`},
		"one of two without names is gone": {"{l: [{port: 1}, {port: 2}]}", "{l: [{port: 3}]}", ports(helm, 1, other, 3), `/l/0 l[0]: {"port":1} → null by ` + "\n" + `/l/1 l[1]: {"port":2} → null by `},
		"an element without a default key": {"{l: [{port: 53, protocol: UDP}, {port: 53}]}", "{l: [{port: 53, protocol: UDP}]}", map[string]string{helm: `{"f:l":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{}}}}`}, `/l/1 l[1]: {"port":53} → null by `},
		"a list with one owner":            {"{l: [1, 2]}", "{l: [1, 3]}", map[string]string{other: `{"f:l":{}}`, helm: `{"f:m":{}}`}, "/l/1 l[1]: 2 → 3 by other"},
		"a list has grown":                 {"{l: [1]}", "{l: [1, 2]}", map[string]string{other: `{"f:l":{}}`}, "/l l: [1] → [1,2] by other"},
		"a map with one owner":             {"{m: {a: x}}", "{m: {a: x, b: z}}", map[string]string{other: `{"f:m":{}}`}, `/m m: {"a":"x"} → {"a":"x","b":"z"} by other`},
		"a map of which others own all":    {"{data: {a: x, b: x}}", "{data: {a: z, b: x}}", map[string]string{helm: `{"f:data":{}}`, other: `{"f:data":{"f:a":{},"f:b":{}}}`}, `/data/a data.a: "x" → "z" by other`},
		"a quantity in another form":       {"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, resources: {limits: {cpu: 1000m}}}]}}", "{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, resources: {limits: {cpu: '1'}}}]}}", nil, ""},
		"a default replaces a zero value":  {"{apiVersion: v1, kind: Service, spec: {type: ''}}", "{apiVersion: v1, kind: Service, spec: {type: ClusterIP}}", nil, ""},
		"a zero value that nobody owns":    {"{apiVersion: v1, kind: Service, spec: {clusterIP: ''}}", "{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1}}", map[string]string{helm: `{"f:spec":{"f:type":{}}}`}, ""},
		"an empty text of somebody else's": {"{apiVersion: v1, kind: Service, spec: {type: ''}}", "{apiVersion: v1, kind: Service, spec: {type: NodePort}}", map[string]string{other: `{"f:spec":{"f:type":{}}}`, helm: `{"f:metadata":{}}`}, `/spec/type spec.type: "" → "NodePort" by other`},
		"a field that is not stored":       {"{apiVersion: v1, kind: Service, spec: {typo: 1}}", "{apiVersion: v1, kind: Service, spec: {}}", nil, ""},
		"texts of a Secret":                {"{apiVersion: v1, kind: Secret, stringData: {a: x}}", "{apiVersion: v1, kind: Secret, data: {a: eA==}}", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorded, live := AsStored(&unstructured.Unstructured{Object: parse(t, tt.recorded)}), &unstructured.Unstructured{Object: parse(t, tt.live)}
			var fields []metav1.ManagedFieldsEntry
			for manager, owned := range tt.owners {
				fields = append(fields, metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: time.Unix(1, 0)}, FieldsV1: metav1.NewFieldsV1(owned)})
			}
			live.SetManagedFields(fields)
			var got []string
			sent := recorded.DeepCopy()
			for _, d := range Differences(recorded, live) {
				from, _ := json.Marshal(d.Recorded(recorded.Object))
				to, _ := json.Marshal(d.Live(live.Object))
				text := fmt.Sprintf("%s %s: %s → %s by %s", d.Pointer(), d.Field, from, to, d.Manager)
				for _, k := range d.Rekeyed {
					text += fmt.Sprintf("; %s %s: %v → %v by %s", k.Pointer(), k.Field, k.Recorded(recorded.Object), k.Live(live.Object), k.Manager)
				}
				got = append(got, text)
				d.Keep(sent.Object, live.Object)
			}
			if text := strings.Join(got, "\n"); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			left := slices.DeleteFunc(Differences(sent, live), func(d Difference) bool { return strings.HasPrefix(d.Pointer(), "/l/") && len(d.Rekeyed) == 0 })
			if len(left) > 0 {
				t.Errorf("differences are left: %+v", left)
			}
		})
	}
}

// keys returns owners of elements of list l: Helm of one, somebody else of the others.
func keys(helm, a, other, b string) map[string]string {
	element := func(name string) string {
		return `{"f:l":{"k:{\"name\":\"` + name + `\"}":{".":{},"f:name":{},"f:v":{}}}}`
	}
	return map[string]string{helm: element(a), other: element(b)}
}

// ports returns owners of elements of list l whose key is a port, as keys does.
func ports(helm string, a int, other string, b int) map[string]string {
	element := func(port int) string {
		return fmt.Sprintf(`{"f:l":{"k:{\"port\":%d}":{".":{},"f:name":{},"f:port":{}}}}`, port)
	}
	return map[string]string{helm: element(a), other: element(b)}
}

// TestRewritten (S18): a field that Helm has written otherwise than the record says is drift if applying the object again changes it.
func TestRewritten(t *testing.T) {
	const helm, other = connect.FieldManager, "other"
	v := `{"f:spec":{"f:a":{}}}`
	for name, tt := range map[string]struct{ recorded, live, applied, manager, owned, want string }{
		"written otherwise":        {"{spec: {a: 1}}", "{spec: {a: 2}}", "{spec: {a: 1}}", helm, v, "spec.a by helm"},
		"by a webhook":             {"{spec: {a: 1}}", "{spec: {a: 2}}", "{spec: {a: 2}}", helm, v, ""},
		"by a webhook, and later":  {"{spec: {a: 1}}", "{spec: {a: 2}}", "{spec: {a: 3}}", helm, v, "spec.a by helm"},
		"by somebody else":         {"{spec: {a: 1}}", "{spec: {a: 2}}", "{spec: {a: 1}}", other, v, ""},
		"a list with one owner":    {"{l: [1, 2]}", "{l: [3]}", "{l: [1, 2]}", helm, `{"f:l":{}}`, "l by helm"},
		"a default in such a list": {"{l: [{a: 1}]}", "{l: [{a: 1, b: 2}]}", "{l: [{a: 1, b: 2}]}", helm, `{"f:l":{}}`, ""},
		"gone from such a list":    {"{l: [{a: 1, b: 2}]}", "{l: [{a: 1}]}", "{l: [{a: 1, b: 2}]}", helm, `{"f:l":{}}`, "l[0].b by "},
		"gone, which nobody owns":  {"{spec: {a: 1}}", "{spec: {}}", "{spec: {a: 1}}", helm, v, ""},
		"a map that was replaced":  {"{m: {a: x}}", "{m: {b: x}}", "{m: {a: x}}", helm, `{"f:m":{}}`, "m by helm"},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := &unstructured.Unstructured{Object: parse(t, tt.recorded)}
			owned := func(text, manager string) *unstructured.Unstructured {
				u := &unstructured.Unstructured{Object: parse(t, text)}
				u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Time: &metav1.Time{Time: time.Unix(1, 0)}, FieldsV1: metav1.NewFieldsV1(tt.owned)}})
				return u
			}
			live, applied := owned(tt.live, tt.manager), owned(tt.applied, helm)
			var got []string
			for _, d := range Confirmed(Rewritten(recorded, live), recorded, live, applied) {
				got = append(got, d.Field+" by "+d.Manager)
			}
			if text := strings.Join(got, "\n"); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}
