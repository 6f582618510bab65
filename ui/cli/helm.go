package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/cli/output"
	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"lockstep/kube"
	"lockstep/ui/likehelm"
	"lockstep/ui/report"
)

// Commands that Helm has, too: what they print and how is Helm's to say, so that
// scripts find what they know. Tests compare their flags with Helm's, and what
// they print with what the program helm prints.

// likeHelm returns what show prints, which reads releases by actions of a.helm.
// With an error that is what had been printed until then.
func (a *app) likeHelm(cmd *cobra.Command, namespace string, show func(*bytes.Buffer) error) (*bytes.Buffer, error) {
	if err := likehelm.SetColour(a.settings.ColorMode); err != nil {
		return nil, err
	}
	out, err := during(cmd.Context(), func(context.Context) (out *bytes.Buffer, err error) {
		out = new(bytes.Buffer)
		defer func() {
			if p := recover(); p != nil { // Helm takes for granted what a damaged record does not have
				err = fmt.Errorf("helm fails to read a release record that is damaged (%v); lockstep watch RELEASE names it", p)
			}
		}()
		if err := a.readyHelm(namespace); err != nil {
			return nil, err
		}
		return out, show(out)
	})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		err = fmt.Errorf("%w; lockstep list -A shows which there are", err)
	}
	return out, err
}

// printLikeHelm prints what likeHelm returns.
func (a *app) printLikeHelm(cmd *cobra.Command, namespace string, to io.Writer, show func(*bytes.Buffer) error) error {
	out, err := a.likeHelm(cmd, namespace, show)
	if out == nil {
		return err
	}
	_, writing := to.Write(out.Bytes())
	return errors.Join(err, writing)
}

// readyHelm connects Helm's actions with a namespace, or with all where it is empty.
func (a *app) readyHelm(namespace string) error {
	a.helm.SetLogger(slog.Default().Handler())
	if err := a.helm.Init(readOnce(a.settings.RESTClientGetter()), namespace, kube.StorageDriver()); err != nil {
		return fmt.Errorf("prepare Helm: %w", err)
	}
	return nil
}

// onceGetter reads the kubeconfig, and asks what kinds there are, once. Helm's does both
// for each object that it shows: the status of 1,000 took 5 s.
type onceGetter struct {
	genericclioptions.RESTClientGetter
	config    func() (*rest.Config, error)
	discovery func() (discovery.CachedDiscoveryInterface, error)
	mapper    func() (meta.RESTMapper, error)
}

func readOnce(g genericclioptions.RESTClientGetter) onceGetter {
	return onceGetter{g, sync.OnceValues(g.ToRESTConfig), sync.OnceValues(g.ToDiscoveryClient), sync.OnceValues(g.ToRESTMapper)}
}

// ToRESTConfig returns a copy: who gets it may change it.
func (g onceGetter) ToRESTConfig() (*rest.Config, error) {
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(config), nil
}

// ToDiscoveryClient returns what knows the kinds that the API server has.
func (g onceGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery()
}

// ToRESTMapper returns what finds the resources of kinds.
func (g onceGetter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper() }

// readable are releases of the one format that there is so far.
func readable(found []release.Releaser) ([]*rel1.Release, error) {
	var all []*rel1.Release
	for _, x := range found {
		r, ok := x.(*rel1.Release)
		if !ok {
			return nil, fmt.Errorf("unsupported release type: %T", x)
		}
		all = append(all, r)
	}
	return all, nil
}

// addHelmOutput adds -o as Helm's commands have it.
func addHelmOutput(cmd *cobra.Command) {
	addChoice(cmd, &choice{allowed: output.Formats()}, "output", "o", "format")
}

// helmFormat is what -o says.
func helmFormat(cmd *cobra.Command) output.Format {
	if f := cmd.Flag("output"); f != nil {
		return output.Format(f.Value.String())
	}
	return output.Table
}

// helmDisplay is how a command that Helm has, too, shows things.
func (a *app) helmDisplay(cmd *cobra.Command) report.Display {
	if f := helmFormat(cmd); f != output.Table {
		return a.display(cmd, report.Mode(f))
	}
	return a.display(cmd, report.ModeText)
}

func (a *app) addRevision(cmd *cobra.Command) {
	cmd.Flags().Int("revision", 0, "revision to look at (default the latest)")
	_ = cmd.RegisterFlagCompletionFunc("revision", a.completeRevisions) // it is there
}

// revisionOf is what --revision says.
func revisionOf(cmd *cobra.Command) int {
	n, err := cmd.Flags().GetInt("revision")
	if err != nil {
		panic(err) // it is not there
	}
	return n
}
