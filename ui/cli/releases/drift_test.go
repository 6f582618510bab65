package releases

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/cli/command"
)

// TestRepairsGoToTheComparedReleases (S18): the client of a repair uses the namespace and the context of the comparison, so that a
// release of the same name elsewhere is left alone.
func TestRepairsGoToTheComparedReleases(t *testing.T) {
	const config = `{"apiVersion": "v1", "kind": "Config", "current-context": "one",
"clusters": [{"name": "a", "cluster": {"server": "https://a"}}, {"name": "b", "cluster": {"server": "https://b"}}],
"contexts": [{"name": "one", "context": {"cluster": "a", "namespace": "first"}}, {"name": "two", "context": {"cluster": "b", "namespace": "second"}}]}`
	settings := helmcli.New()
	settings.KubeConfig = filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(settings.KubeConfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	a := &app{&command.App{Settings: settings}, Repair{Run: func(_ *cobra.Command, s *helmcli.EnvSettings, release string, _ command.Repairs) error {
		loader := s.RESTClientGetter().ToRawKubeConfigLoader()
		namespace, _, err := loader.Namespace()
		if err != nil {
			return err
		}
		client, err := loader.ClientConfig()
		if err != nil {
			return err
		}
		got = append(got, fmt.Sprintf("%s %s/%s", client.Host, namespace, release))
		return nil
	}}}
	for _, r := range []inspect.Drift{{Release: "zz", Namespace: "x"}, {Release: "zz", Namespace: "y", Context: "two"}, {Release: "zz", Namespace: "first"}} {
		if err := a.repairDrift(&cobra.Command{}, r, command.Repairs{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"https://a x/zz", "https://b y/zz", "https://a first/zz"}; !slices.Equal(got, want) {
		t.Errorf("repairs of %q, want %q", got, want)
	}
	if settings.Namespace() != "first" {
		t.Errorf("the namespace of the command is %s now", settings.Namespace())
	}
}

// TestRepairsOfSeveralReleases (S18): a release that cannot be repaired, or whose repair is aborted, does not keep the others from
// being repaired, and the end names it. A signal stops all.
func TestRepairsOfSeveralReleases(t *testing.T) {
	release := func(name string) inspect.Drift {
		return inspect.Drift{Release: name, Namespace: "ns", Objects: []inspect.DriftedObject{{Object: plan.Object{Kind: "Service", Name: "web"}, Gone: true}}}
	}
	invalid, aborted := errors.New("Service/web: invalid"), command.Exit(command.ExitAborted, nil)
	a, b, c := release("a"), release("b"), release("c")
	a.Context = "two"
	for name, tc := range map[string]struct {
		found       []inspect.Drift
		results     map[string]error
		interrupted string // the release whose repair a signal ends
		tried       string
		code        int
		want, warns string
	}{
		"all are repaired": {found: []inspect.Drift{a, {Release: "same"}, c}, tried: "a c"},
		"one release":      {found: []inspect.Drift{b}, results: map[string]error{"b": invalid}, tried: "b", code: command.ExitFailed, want: "Service/web: invalid"},
		"one of several": {
			found: []inspect.Drift{a, b, c}, results: map[string]error{"a": invalid, "b": aborted}, tried: "a b c", code: command.ExitFailed,
			want: "2 of 3 releases were not repaired: two/ns/a, ns/b", warns: "warning: two/ns/a is not repaired: Service/web: invalid\n",
		},
		"not approved": {
			found: []inspect.Drift{b, c}, results: map[string]error{"b": aborted}, tried: "b c", code: command.ExitAborted, want: "1 of 2 releases were not repaired: ns/b",
		},
		"a signal": {
			found: []inspect.Drift{a, b, c}, results: map[string]error{"a": command.Exit(command.ExitFailed, nil), "b": aborted}, interrupted: "b",
			tried: "a b", code: command.ExitAborted, want: "3 of 3 releases were not repaired: two/ns/a, ns/b, ns/c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var tried []string
			signals := command.NewSignals(t.Context())
			app := &app{&command.App{Settings: helmcli.New(), Signals: signals}, Repair{Run: func(_ *cobra.Command, _ *helmcli.EnvSettings, release string, _ command.Repairs) error {
				if tried = append(tried, release); release == tc.interrupted {
					signals.Handle(os.Interrupt)
				}
				return tc.results[release]
			}}}
			cmd, stderr := &cobra.Command{}, &bytes.Buffer{}
			cmd.SetErr(stderr)
			err := app.repairAll(cmd, tc.found, command.Repairs{})
			if got := strings.Join(tried, " "); got != tc.tried {
				t.Errorf("tried %s, want %s", got, tc.tried)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want || command.ExitCode(err) != tc.code || stderr.String() != tc.warns {
				t.Errorf("error %q, exit code %d, warnings %q", got, command.ExitCode(err), stderr)
			}
		})
	}
}
