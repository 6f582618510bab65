// Package kube is the facade of lockstep as a library: programs import it to install,
// upgrade, roll back, uninstall and test releases group by group. Rendering, hooks, the
// release record and notes are left to Helm's own actions.
//
// Client.PrepareInstall and its siblings check everything without writing and return an
// Operation. Operation.Run executes it; its Feed has the events, and Operation.Command
// controls it. A program that runs many operations shares Watches between them (see
// example/fleet). NewOrdered does less: it makes Helm's own actions apply releases in order.
//
// Charts come from package charts, stacks from package helmfile. The main packages behind the facade, roughly in the
// order in which an operation uses them:
//
//	connect     the connection to a cluster
//	charts      load, normalise and render charts, without a cluster
//	manifest    the objects of a manifest: APIs, missing kinds, generated names
//	preflight   all checks before the first write; their result is Prepared
//	operation   install, upgrade, rollback, uninstall, test
//	helmclient  decorates Helm's Kubernetes client
//	cluster     requests of the engine: apply, delete, watch; shared Watches
//	release     decorates Helm's storage; release records
//	preview     the changes that an operation would make
//	view        the live status of a release
//	status      decides whether an object is ready; diagnose finds out why not
package kube
