package helmclient

import (
	"bytes"
	"io"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// Build returns the Infos of a manifest, none for a hook in the plan. It assigns the Infos of other hooks
// to their units.
func (c *Client) Build(r io.Reader, validate bool) (helmkube.ResourceList, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	text := string(raw)
	if c.hooks.isScoped(text) {
		return nil, nil
	}
	build := c.builder().Build
	if c.cfg.Stored != nil && c.cfg.Stored(text) {
		build = c.builder().BuildStored
	}
	list, warnings, err := build(text)
	if err != nil {
		return nil, err
	}
	if unit := c.hooks.match(text, validate); unit != nil {
		c.hooks.claim(unit, c.builder(), list)
		if validate { // Helm is about to create it
			c.builder().Prefetch(c.cfg.Context, list, nil)
		}
		return list, nil
	}
	if !isRelease(raw) && (c.cfg.Embedded != nil || isHook(raw)) { // Helm writes it: a namespace, crds/, or a hook
		c.builder().Forget(list)
		return list, nil
	}
	c.cfg.warn(warnings)
	return c.prepareObjects(list)
}

// BuildRecorded is like Build for the manifest of a revision of which only some objects are applied: the cluster need not serve the
// kinds of the others any more.
func (c *Client) BuildRecorded(text string) (helmkube.ResourceList, error) {
	list, warnings, err := c.builder().BuildTarget(text)
	if err != nil {
		return nil, err
	}
	c.cfg.warn(warnings)
	return c.prepareObjects(list)
}

// prepareObjects prefetches the release's objects and returns those that Helm should process. For an
// uninstall, these are the ones that Helm should delete.
func (c *Client) prepareObjects(list helmkube.ResourceList) (helmkube.ResourceList, error) {
	if c.cfg.Uninstalling {
		if err := c.builder().ResolveStored(list...); err != nil {
			return nil, err
		}
		var warnings []plan.Warning
		list, warnings = c.builder().Expand(c.cfg.Context, list)
		c.cfg.warn(warnings)
	}
	c.mu.Lock()
	c.built = list
	snapshot := c.snapshot
	c.mu.Unlock()
	c.builder().MarkUnreadable(list, c.cfg.DeferredAPIs)
	c.builder().Prefetch(c.cfg.Context, list, snapshot)
	if len(c.cfg.DeferredAPIs) > 0 {
		c.builder().AssumeAbsent(list)
	}
	if !c.cfg.Uninstalling {
		return list, nil
	}
	c.cfg.warn(MarkUnread(c.cfg.Context, c.builder(), list))
	list, warnings := Removable(c.builder(), c.cfg.Session.Claims, list)
	c.cfg.warn(warnings)
	if err := c.removeUnlessHelmDoes(list); err != nil {
		return nil, err
	}
	return manifest.Without(list, c.notDeletedByHelm(list)), nil
}

// forgetSnapshot makes later Builds read the cluster again.
func (c *Client) forgetSnapshot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot = &manifest.Snapshot{}
}

// isRelease reports whether a manifest is that of a release: only those have Source comments, unless
// a post-renderer has dropped them (R6).
func isRelease(manifest []byte) bool { return bytes.Contains(manifest, []byte("# Source: ")) }

func isHook(manifest []byte) bool { return bytes.Contains(manifest, []byte(release.HookAnnotation)) }
