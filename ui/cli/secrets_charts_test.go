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

// The tests that check the output of a command for secrets, and the reasons for not checking some.
const (
	hiddenInRelease = "TestSecretsAreHidden and TestNoCanaryAnywhere"
	offline         = "TestChartSecretsAreHidden"
	likeHelm        = "prints a release or chart unmasked, as Helm does"
	noValues        = "reads nothing that has values"
	namesOnly       = "prints kinds and names of objects, and rules of roles"
	relays          = "prints the events of a run, which its feed has masked"
)

// secretTests maps each command to its test. Add a new command after adding a test for its secrets.
var secretTests = map[string]string{
	"install": hiddenInRelease, "upgrade": hiddenInRelease, "uninstall": hiddenInRelease, "plan": hiddenInRelease, "history": hiddenInRelease,
	"status": hiddenInRelease, "drift": hiddenInRelease, "watch": hiddenInRelease, "replay": hiddenInRelease, "runs show": hiddenInRelease,
	"rollback": hiddenInRelease, "recover": hiddenInRelease, "list": hiddenInRelease, "test": hiddenInRelease, "runs": hiddenInRelease, "plan rollback": hiddenInRelease, "plan uninstall": hiddenInRelease,
	"plan install": hiddenInRelease, "plan upgrade": hiddenInRelease, "plan show": "the script plans, of a plan that plan has masked", "get metadata": hiddenInRelease, "runs diff": hiddenInRelease,
	"up": hiddenInRelease, "down": hiddenInRelease, "home": hiddenInRelease,
	"values diff": "TestCompare of kube/chartvalues", "lint": offline, "images": offline, "dag": offline, "suggest": offline,
	"template": likeHelm, "get all": likeHelm, "get hooks": likeHelm, "get manifest": likeHelm, "get notes": likeHelm, "get values": likeHelm, "manifests": likeHelm,
	"attach": relays, "ctl": relays,
	"runs rm": noValues, "get": noValues, "sandbox": noValues, "version": noValues, "schema": noValues, "annotations": noValues, "inferred": noValues, "reports": noValues,
	"events": noValues, "events schema": noValues, "rules": noValues, "rbac": namesOnly,
}

// TestSecretTestsCoverAllCommands: each command is in secretTests.
func TestSecretTestsCoverAllCommands(t *testing.T) {
	var walk func(*cobra.Command, string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			name := strings.TrimSpace(path + " " + sub.Name())
			if name == "help" || name == "completion" {
				continue
			}
			if sub.Runnable() && secretTests[name] == "" {
				t.Errorf("no test checks the output of %q for secrets", name)
			}
			walk(sub, name)
		}
	}
	walk(newRoot(command.NewSignals(t.Context())), "")
}

// canaryPlaces are texts in a chart that errors or reasons for edges quote. %s is the canary.
var canaryPlaces = map[string]string{
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

// TestChartSecretsAreHidden: commands without a cluster hide a value that the chart puts into a Secret,
// in all formats, even if the value is not named like a secret.
func TestChartSecretsAreHidden(t *testing.T) {
	noCluster(t)
	outputs := [][]string{{"lint"}, {"lint", "-o", "json"}, {"images", "-o", "json"}, {"install", "t", "--dry-run=client"}, {"install", "t", "--dry-run=client", "-o", "json"}}
	for _, format := range []string{"text", "json", "dot", "mermaid"} {
		outputs = append(outputs, []string{"dag", "-o", format}, []string{"dag", "--order", "inferred", "-o", format}, []string{"suggest", "-o", format})
	}
	charts := map[string]string{"schema": writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "values.yaml": "deep: {inner: " + canary + "}\n", "templates/secret.yaml": plainNamedSecret,
		"values.schema.json": `{"properties": {"deep": {"properties": {"inner": {"type": "string", "pattern": "^x"}}}}}`,
	}), "forms": writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "values.yaml": "deep: {inner: " + canary + "}\n", "templates/secret.yaml": plainNamedSecret,
		"templates/forms.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forms}\ndata: " + inForms(),
	})}
	for place, text := range canaryPlaces {
		charts[place] = writeChart(t, map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "values.yaml": "deep: {inner: " + canary + "}\n", "templates/secret.yaml": plainNamedSecret,
			"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\n" + fmt.Sprintf(text, canary) + "\n",
		})
	}
	for place, chart := range charts {
		for _, output := range outputs {
			out, errs, err := runCommand(append(output, chart)...)
			if out+errs == "" && err == nil {
				t.Errorf("%s: %v prints nothing", place, output)
			}
			noCanary(t, fmt.Sprint(place, " ", output), fmt.Sprint(out, errs, new(mask.Mask).Error(err)))
		}
	}
}

// plainNamedSecret is a Secret with a value that is not named like a secret.
const plainNamedSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: credentials}\nstringData: {a: '{{ .Values.deep.inner }}'}\n"

// inForms has the canary in other forms, such as base64.
func inForms() string {
	inner, _ := json.Marshal(map[string]string{"a": canary})
	text, _ := json.Marshal(map[string]string{
		"plain": canary, "basic": base64.StdEncoding.EncodeToString([]byte("user:" + canary)), "json": string(inner), "lines": "a\n" + canary + "\nb",
	})
	return string(text)
}
