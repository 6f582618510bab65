package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
)

// The tests of this package in which a command is asked for secrets, and why some are
// not.
const (
	inCanaries = "TestNoSecretIsTold"
	offline    = "TestNoSecretIsToldOfCharts"
	prints     = "it prints what it is asked for, as Helm does"
	noValues   = "it reads nothing that has values"
	namesOnly  = "it prints kinds and names of objects, and rules of roles"
	relays     = "it tells the events of a run, which its feed has masked"
)

// asked has every command. One that is missing here has to be asked for secrets first.
var asked = map[string]string{
	"install": inCanaries, "upgrade": inCanaries, "uninstall": inCanaries, "plan": inCanaries, "history": inCanaries,
	"status": inCanaries, "watch": inCanaries, "replay": inCanaries, "runs show": inCanaries,
	"rollback": inCanaries, "recover": inCanaries, "list": inCanaries, "test": inCanaries, "runs": inCanaries, "plan rollback": inCanaries, "plan uninstall": inCanaries,
	"plan install": inCanaries, "plan upgrade": inCanaries, "get metadata": inCanaries, "runs diff": inCanaries,
	"up": inCanaries, "down": inCanaries,
	"lint": offline, "dag": offline, "suggest": offline,
	"template": prints, "get all": prints, "get hooks": prints, "get manifest": prints, "get notes": prints, "get values": prints, "manifests": prints,
	"attach": relays, "ctl": relays,
	"runs rm": noValues, "get": noValues, "sandbox": noValues, "version": noValues, "annotations": noValues, "inferred": noValues, "reports": noValues,
	"events": noValues, "events schema": noValues, "rules": noValues, "rbac": namesOnly,
}

// TestEveryCommandIsAskedForSecrets fails for a command that nobody has thought of.
func TestEveryCommandIsAskedForSecrets(t *testing.T) {
	var walk func(*cobra.Command, string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			name := strings.TrimSpace(path + " " + sub.Name())
			if name == "help" || name == "completion" {
				continue
			}
			if sub.Runnable() && asked[name] == "" {
				t.Errorf("nobody asks %q for secrets", name)
			}
			walk(sub, name)
		}
	}
	walk(newRoot(command.NewSignals(t.Context())), "")
}

// quoting are the places in a chart whose text is quoted where something is wrong with
// it or where an order is read from it; %s is the canary.
var quoting = map[string]string{
	"expression": `metadata: {name: x, annotations: {helm.sh/readiness-success: '["%s"]', helm.sh/readiness-failure: '["{.x} == 1"]'}}`,
	"half":       `metadata: {name: x, annotations: {helm.sh/readiness-success: '["{.x} == %s"]'}}`,
	"list":       `metadata: {name: x, annotations: {helm.sh/readiness-failure: '%s'}}`,
	"weight":     `metadata: {name: x, annotations: {helm.sh/weight: "%s"}}`,
	"layer":      `metadata: {name: x, annotations: {helm.sh/layer: a, helm.sh/dependson/layer: "%s"}}`,
	"groups":     `metadata: {name: x, annotations: {helm.sh/depends-on/resource-groups: '%s'}}`,
	"no group":   `metadata: {name: x, annotations: {helm.sh/resource-group: a, helm.sh/depends-on/resource-groups: '["%s"]'}}`,
	"template":   `{{ fail "bad %s" }}`,
	"required":   `{{ required "%s is needed" .Values.none }}`,
	"address":    "metadata: {name: x}\ndata: {url: 'postgres://u:%s@db:5432/x'}",
}

// TestNoSecretIsToldOfCharts asks every command that reads a chart alone, in all formats,
// for a value that the chart puts into a Secret: one that is not called like one.
func TestNoSecretIsToldOfCharts(t *testing.T) {
	noCluster(t)
	outputs := [][]string{{"lint"}, {"lint", "-o", "json"}, {"install", "t", "--dry-run=client"}, {"install", "t", "--dry-run=client", "-o", "json"}}
	for _, format := range []string{"text", "json", "dot", "mermaid"} {
		outputs = append(outputs, []string{"dag", "-o", format}, []string{"dag", "--order", "inferred", "-o", format}, []string{"suggest", "-o", format})
	}
	charts := map[string]string{"schema": writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "values.yaml": "deep: {inner: " + canary + "}\n", "templates/secret.yaml": innocent,
		"values.schema.json": `{"properties": {"deep": {"properties": {"inner": {"type": "string", "pattern": "^x"}}}}}`,
	}), "forms": writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "values.yaml": "deep: {inner: " + canary + "}\n", "templates/secret.yaml": innocent,
		"templates/forms.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forms}\ndata: " + inForms(),
	})}
	for place, text := range quoting {
		charts[place] = writeChart(t, map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "values.yaml": "deep: {inner: " + canary + "}\n", "templates/secret.yaml": innocent,
			"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\n" + fmt.Sprintf(text, canary) + "\n",
		})
	}
	for place, chart := range charts {
		for _, output := range outputs {
			out, errs, err := typed(append(output, chart)...)
			if out+errs == "" && err == nil {
				t.Errorf("%s: %v says nothing", place, output)
			}
			noCanary(t, fmt.Sprint(place, " ", output), fmt.Sprint(out, errs, new(mask.Mask).Error(err)))
		}
	}
}

// innocent is a Secret of a value that is not called like one.
const innocent = "apiVersion: v1\nkind: Secret\nmetadata: {name: credentials}\nstringData: {a: '{{ .Values.deep.inner }}'}\n"

// inForms has the canary as it stands in other things.
func inForms() string {
	inner, _ := json.Marshal(map[string]string{"a": canary})
	text, _ := json.Marshal(map[string]string{
		"plain": canary, "basic": base64.StdEncoding.EncodeToString([]byte("user:" + canary)), "json": string(inner), "lines": "a\n" + canary + "\nb",
	})
	return string(text)
}
