package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/incluster"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
	"lockstep/kube/permissions"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// ErrNoAccount is wrapped by the error of StartTask about a ServiceAccount that does not exist.
var ErrNoAccount = errors.New("create it with the permissions that the run needs")

// StartTask starts a task in the cluster. The namespace must exist. If StartTask fails, it deletes the
// objects that it created.
func (c *Client) StartTask(ctx context.Context, t incluster.Task) (*incluster.Run, error) {
	user := make(chan string, 1)
	go func() { user <- c.User(ctx) }() // concurrent with the next request, because both may be slow
	// Other errors are ignored: the user may start runs without permission to read ServiceAccounts.
	if _, err := c.Clientset.CoreV1().ServiceAccounts(t.Namespace).Get(ctx, t.ServiceAccount, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %s has no ServiceAccount %s: %w", t.Namespace, t.ServiceAccount, ErrNoAccount)
	}
	t.By = <-user
	return incluster.Start(ctx, c.Clientset, t)
}

// CreateAdmin creates a ServiceAccount with all permissions, for a throwaway cluster. It returns its name.
func (c *Client) CreateAdmin(ctx context.Context, namespace string) (string, error) {
	const name = "lockstep"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}
	if _, err := c.Clientset.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create ServiceAccount %s: %w", name, err)
	}
	if _, err := c.Clientset.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create ClusterRoleBinding %s: %w", binding.Name, err)
	}
	return name, nil
}

// WriteTask writes the objects of a task as YAML, so that another user can create them.
func WriteTask(w io.Writer, t incluster.Task) error {
	objects, err := t.Manifests()
	if err != nil {
		return err
	}
	for _, o := range objects {
		var text string
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		delete(fields, "status")
		if err == nil {
			text, err = charts.YAML(fields)
		}
		if err != nil {
			return fmt.Errorf("write the manifests of the run of release %s: %w", t.Release, err)
		}
		if _, err := io.WriteString(w, "---\n"+text); err != nil {
			return err
		}
	}
	return nil
}

// ClusterRuns returns the runs in a namespace, or with "" in all namespaces, the newest first.
func (c *Client) ClusterRuns(ctx context.Context, namespace string) ([]incluster.Run, error) {
	runs, err := incluster.List(ctx, c.Clientset, namespace)
	return runs, c.ExplainDenied(err)
}

// FollowClusterRuns calls show with the runs in a namespace, or with "" in all namespaces, the newest first: at first and after
// changes, until ctx is done or it is not permitted.
func (c *Client) FollowClusterRuns(ctx context.Context, namespace string, show func([]incluster.Run)) {
	bound, err := c.Bind(connect.WithRetryTimeout(ctx, 0), &connect.Writes{})
	if err != nil {
		return
	}
	jobs := map[types.UID]incluster.Run{}
	cluster.FollowWatch(ctx, func() (watch.Interface, error) {
		clear(jobs) // a watch starts with all of them
		return bound.Clientset.BatchV1().Jobs(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: incluster.Selector, TimeoutSeconds: new(int64(600))})
	}, func(e watch.Event) {
		job, ok := e.Object.(*batchv1.Job)
		switch {
		case !ok:
			return
		case e.Type == watch.Deleted:
			delete(jobs, job.UID)
		default:
			jobs[job.UID] = incluster.RunOf(c.Clientset, job)
		}
		show(slices.SortedFunc(maps.Values(jobs), incluster.Newer))
	})
}

// Self names the user of this process and the machine, as locks do: "ann on box".
func Self() string { return lease.Self() }

// Process names this process: "ann on box, process 7".
func Process() string { return lease.NewAuthor("").String() }

// FollowLocks keeps the locks of the releases in a namespace, or with "" in all namespaces, up to date until ctx is done or it is not
// permitted. It calls changed after each change.
func (c *Client) FollowLocks(ctx context.Context, namespace string, locks *Locks, changed func()) {
	bound, err := c.Bind(connect.WithRetryTimeout(ctx, 0), &connect.Writes{})
	if err != nil {
		return
	}
	cluster.FollowWatch(ctx, func() (watch.Interface, error) {
		return bound.Clientset.CoordinationV1().Leases(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: lease.Selector, TimeoutSeconds: new(int64(600))})
	}, func(e watch.Event) {
		if l, ok := e.Object.(*coordinationv1.Lease); ok {
			locks.Put(l, e.Type == watch.Deleted)
			changed()
		}
	})
}

// Requests returns a reader of the requests to this process, one per line. It returns nil if the process
// does not run in the pod of a task.
func (c *Client) Requests(ctx context.Context) io.Reader { return incluster.Requests(ctx, c.Clientset) }

// CheckCommands returns a *Refusal if this process runs in the pod of a task whose account may not read the commands to the run: it
// would obey none, not even an abort. roles is the command that prints the roles for an account.
func (c *Client) CheckCommands(ctx context.Context, roles func(account string) string) error {
	namespace, name, ok := strings.Cut(incluster.JobName(), "/")
	if !ok {
		return nil
	}
	return preflight.CheckAllowed(ctx, c.Client, permissions.Commands(namespace, name), func(user string) string {
		return roles(strings.TrimPrefix(user, "system:serviceaccount:"+namespace+":"))
	})
}

// DeletedJob returns the Job in whose pod this process runs, as namespace/name, if somebody has deleted it, else "".
func (c *Client) DeletedJob(ctx context.Context) string { return incluster.Deleted(ctx, c.Clientset) }

// LostJob returns the Job of the run that holds the lock of a release, as namespace/name, if somebody has deleted it: the run is
// over, and nothing has ended its revision. Otherwise, and if that cannot be read, it returns "".
func (c *Client) LostJob(ctx context.Context, namespace, release string) string {
	lock, err := c.Leases(namespace).Get(ctx, lease.Name(release), metav1.GetOptions{})
	if err != nil {
		return ""
	}
	id := strings.Split(lease.HolderOf(lock).Job, "/")
	if len(id) != 3 {
		return ""
	}
	job, err := c.Clientset.BatchV1().Jobs(id[0]).Get(ctx, id[1], metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(job.UID) != id[2] {
		return id[0] + "/" + id[1]
	}
	return ""
}

// OpenJournal opens the journal of the run in this pod. It is nil outside of the pod of a task. The outage that replaced the pod
// may last: it is waited out until the timeout (R53).
func (c *Client) OpenJournal(ctx context.Context, timeout time.Duration) (*journal.Journal, error) {
	if incluster.JobName() == "" {
		return nil, nil
	}
	if err := c.awaitServer(ctx, timeout); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var j *journal.Journal
	err := release.Retry(ctx, func() (err error) {
		if j, err = incluster.OpenJournal(ctx, c.Clientset); err == nil {
			err = j.Err()
		}
		return err
	})
	if j != nil { // it says why it cannot be written
		err = nil
	}
	return j, err
}

// awaitServer waits until the API server responds.
func (c *Client) awaitServer(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timed out after %s (--timeout)", timeout))
	defer cancel()
	bound, err := c.Bind(connect.WithRetryTimeout(ctx, 0), &connect.Writes{})
	if err != nil {
		return err
	}
	return bound.CheckReachable(ctx)
}

// ExplainDenied replaces an error about a missing permission with one that names the user and the
// permission. It returns other errors unchanged.
func (c *Client) ExplainDenied(err error) error { return preflight.ExplainDenied(c.Client, err) }

// User returns the name under which the API server knows the user, "" if the request fails.
func (c *Client) User(ctx context.Context) string { return preflight.Username(ctx, c.Client) }

// WhyPodWaits returns the reason why a pod has not started.
func (c *Client) WhyPodWaits(ctx context.Context, pod *corev1.Pod) string {
	return c.Diagnoser().Object(ctx, plan.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}).Cause
}

// WhyJobWaits returns the reason why a Job has no pod.
func (c *Client) WhyJobWaits(ctx context.Context, r *incluster.Run) string {
	found := c.Diagnoser().Object(ctx, plan.Object{Group: "batch", Kind: "Job", Namespace: r.Namespace, Name: r.Name})
	if found.Symptom { // the last pod was deleted, for example by an eviction
		return "the Job is starting one"
	}
	return found.Cause
}

// EnsureNamespace creates a namespace unless it exists.
func (c *Client) EnsureNamespace(ctx context.Context, name string) error {
	_, err := c.Clientset.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// FindApprovals returns where the newest run of a release on another machine reads its approvals, and which it asks for; nil
// if there is none.
func (c *Client) FindApprovals(ctx context.Context, namespace, release string) (*event.ApprovalsAt, []plan.Approval, error) {
	return incluster.FindApprovals(ctx, c.Clientset, namespace, release)
}

// Approve writes approvals to where a run reads them, in the name of the user of this connection. It returns who has approved.
func (c *Client) Approve(ctx context.Context, at event.ApprovalsAt, approvals []plan.Approval) (by string, err error) {
	return incluster.Approve(ctx, c.Clientset, at, approvals, c.User(ctx))
}
