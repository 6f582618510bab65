package plan

import (
	"strings"
	"testing"
)

// TestOutsideObjectsAreParsed: the name of an object outside the release is read, or refused with how to write it (R22d).
func TestOutsideObjectsAreParsed(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  Object
		error string
	}{
		{text: "Secret/db-tls", want: Object{Kind: "Secret", Name: "db-tls"}},
		{text: " Service/other/api ", want: Object{Kind: "Service", Namespace: "other", Name: "api"}},
		{text: "Deployment/api", want: Object{Group: "apps", Kind: "Deployment", Name: "api"}},
		{text: "Certificate.cert-manager.io/infra/ca", want: Object{Group: "cert-manager.io", Kind: "Certificate", Namespace: "infra", Name: "ca"}},
		{text: "Ingress.example.org/a", want: Object{Group: "example.org", Kind: "Ingress", Name: "a"}},
		{text: "Secret", error: "'Secret' is not an object; write KIND[.GROUP]/[NAMESPACE/]NAME"},
		{text: "Secret//a", error: "is not an object"},
		{text: "Secret/a/b/c", error: "is not an object"},
		{text: "Secret/a b", error: "is not an object"},
		{text: "", error: "is not an object"},
		{text: "secret/a", error: "'secret' is not a kind"},
		{text: "Certificate/ca", error: "the API group of Certificate is missing; write Certificate.GROUP/ca"},
		{text: "Configmap/a", error: "did you mean ConfigMap?"},
	} {
		got, err := ParseOutside(c.text)
		if got != c.want || (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
		if again, err := ParseOutside(FormatOutside(got, "")); c.error == "" && (err != nil || again != got) {
			t.Errorf("%q is written as %s", c.text, FormatOutside(got, ""))
		}
	}
}

// TestGroupsWaitForOutsideObjects: the group of an object waits for what its annotation names; a removal and a plan without
// an order do not (R22d).
func TestGroupsWaitForOutsideObjects(t *testing.T) {
	object := func(name, group string, outside ...Object) Resource {
		r := Resource{Object: Object{Kind: "ConfigMap", Name: name}, Chart: "c", Annotations: map[string]string{AnnotationGroup: group}, WaitFor: outside}
		if group == "b" {
			r.Annotations[AnnotationGroupDependsOn] = `["a"]`
		}
		return r
	}
	tls, ca := Object{Kind: "Secret", Name: "tls"}, Object{Kind: "Secret", Name: "ca"}
	resources := []Resource{object("x", "a"), object("y", "b", tls, ca), object("z", "b", tls)}
	p, err := Build(&Chart{Path: "c"}, resources)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Groups) != 2 || len(p.Groups[0].WaitFor) != 0 || len(p.Groups[1].WaitFor) != 2 || p.Groups[1].WaitFor[0] != ca || p.Groups[1].WaitFor[1] != tls {
		t.Errorf("%+v", p.Groups)
	}
	for _, g := range append(RemovalOrder(p.Groups), Flat(nil, resources, "c").Groups...) {
		if len(g.WaitFor) > 0 {
			t.Errorf("%s waits for %v", g.ID, g.WaitFor)
		}
	}
	if err := WaitForFirst(p.Groups, []Object{{Kind: "Secret", Name: "db"}}); err != nil || len(p.Groups[0].WaitFor) != 1 || len(p.Groups[1].WaitFor) != 2 {
		t.Errorf("%v: %+v", err, p.Groups)
	}
	if err := WaitForFirst(p.Groups, []Object{{Kind: "ConfigMap", Name: "z"}}); err == nil || !strings.Contains(err.Error(), "cannot wait for ConfigMap/z") {
		t.Errorf("error %v", err)
	}
}

// TestOwnObjectIsNotOutside: an object of the release itself is an error, for it would keep its group from starting for ever or
// say nothing (R22d).
func TestOwnObjectIsNotOutside(t *testing.T) {
	own := Resource{Object: Object{Kind: "Secret", Name: "tls"}, Chart: "c"}
	_, err := Build(&Chart{Path: "c"}, []Resource{own, {Object: Object{Kind: "ConfigMap", Name: "x"}, Chart: "c", WaitFor: []Object{own.Object}}})
	if err == nil || !strings.Contains(err.Error(), "ConfigMap/x: annotation lockstep/wait-for names Secret/tls, which is part of this release") {
		t.Errorf("error %v", err)
	}
	objects, faults := ReadWaitFor(map[string]string{AnnotationWaitFor: `["Secret/a", "b", "C/d"]`})
	if len(objects) > 0 || len(faults) != 1 || !strings.Contains(faults[0].Message, "'b' is not an object") || !strings.Contains(faults[0].Message, "API group of C is missing") {
		t.Errorf("%v, %v", objects, faults)
	}
	if _, faults := ReadWaitFor(map[string]string{AnnotationWaitFor: "Secret/a"}); len(faults) != 1 || !strings.Contains(faults[0].Message, "must be a list") {
		t.Errorf("%v", faults)
	}
}
