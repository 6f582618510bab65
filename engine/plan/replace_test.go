package plan

import (
	"strings"
	"testing"
)

// TestReplacements: --replace names kinds and objects; what is lost with an object needs its name (R30b).
func TestReplacements(t *testing.T) {
	job, web := Object{Group: "batch", Kind: "Job", Name: "seed"}, Object{Group: "apps", Kind: "Deployment", Name: "web"}
	claim, gear := Object{Kind: "PersistentVolumeClaim", Name: "data"}, Object{Group: "x.example", Kind: "Gear", Name: "g"}
	for _, tt := range []struct {
		texts  string
		object Object
		byName bool
		want   bool
	}{
		{"never", job, false, false},
		{"Job", job, false, true},
		{"Job", job, true, false},
		{"Job/seed", job, true, true},
		{"Job/other", job, false, false},
		{"Job.batch", job, false, true},
		{"Job.x.example", job, false, false},
		{"Job,Deployment/web", web, false, true},
		{"Job,Deployment/web", gear, false, false},
		{"Gear.x.example/g", gear, false, true},
		{"PersistentVolumeClaim/data", claim, false, true},
		{"ask", job, false, true},
		{"ask", claim, false, false},
	} {
		r, err := ParseReplacements(strings.Split(tt.texts, ","))
		if got := r.Allow(tt.object, tt.byName); err != nil || got != tt.want {
			t.Errorf("--replace %s, %s, by name %t: %t, %v", tt.texts, tt.object, tt.byName, got, err)
		}
	}
	r, err := ParseReplacements([]string{"Job", "Deployment/wbe", "Deployment/web"})
	if missed := r.Unmatched([]Object{job, web}); err != nil || len(missed) != 1 || missed["--replace Deployment/wbe"].Message == "" {
		t.Errorf("--replace that names nothing: %v, %v", missed, err)
	}
	for texts, want := range map[string]string{
		"":                         "write KIND[.GROUP][/NAME]",
		"job":                      "did you mean Job?",
		"Job/":                     "write KIND",
		"Job/a/b":                  "write KIND",
		"Job web":                  "write KIND",
		"never,Job":                "never cannot be combined",
		"Job,ask":                  "ask cannot be combined",
		"Namespace":                "Namespace/NAME",
		"PersistentVolumeClaim":    "PersistentVolumeClaim/NAME",
		"CustomResourceDefinition": "CustomResourceDefinition/NAME",
	} {
		if _, err := ParseReplacements(strings.Split(texts, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--replace %q: %v, want %q", texts, err, want)
		}
	}
}
