package incluster

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"lockstep/engine/event"
	"lockstep/engine/parallel"
	"lockstep/engine/plan"
	"lockstep/kube/names"
)

// ApprovalPolicy is the policy by which the API server protects approvals, with its binding and the role of those who may
// approve, as YAML.
//
//go:embed approvals.yaml
var ApprovalPolicy string

const (
	// LabelApprovals is the label of a Lease that has approvals. The policy selects by it.
	LabelApprovals = "lockstep/approvals"
	// approvalPrefix is the prefix of the annotations with approvals, whose values are the users.
	approvalPrefix = "lockstep.approval/"
	// annotationPlan and annotationAsks are the digest of the plan and the approvals that it asks for, as JSON, of a run that
	// those who approve may be unable to reach.
	annotationPlan = "lockstep/plan"
	annotationAsks = "lockstep/asks"
	// approvalsVar is the environment variable that makes the pod of a run accept only approvals in its Lease.
	approvalsVar = "LOCKSTEP_JOB_APPROVALS"
)

// errNoUser is the error for a user of unknown name.
var errNoUser = errors.New("the API server does not say who this user is (SelfSubjectReview), so nobody else could be told apart for approvals")

// ApprovalKey is the annotation of an approval. It is bound to a plan by its digest.
func ApprovalKey(digest string, a plan.Approval) string {
	text, _ := json.Marshal([]string{digest, a.Of, a.Reason}) // strings always can be
	sum := sha256.Sum256(text)
	return approvalPrefix + hex.EncodeToString(sum[:20])
}

// protect makes a Lease one that has approvals. by is the user who creates it.
func protect(lease *coordinationv1.Lease, release, by string) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[LabelApprovals] = names.Of(release)
	lease.Annotations = map[string]string{annotationBy: by}
}

// NewApprovals creates the Lease for the approvals that the run of a release outside of the cluster asks for. digest is that of
// its plan, by the user. If an earlier run of this user was killed, it uses the Lease of that for the same plan.
func NewApprovals(ctx context.Context, kube kubernetes.Interface, namespace, release, digest, by string, asks []plan.Approval) (at event.ApprovalsAt, err error) {
	if by == "" {
		return at, errNoUser
	}
	text, err := json.Marshal(asks)
	if err != nil {
		return at, err
	}
	same := ""
	err = DeleteApprovals(ctx, kube, namespace, release, func(l coordinationv1.Lease) bool {
		if same == "" && l.Annotations[annotationPlan] == digest && l.Annotations[annotationBy] == by {
			same = l.Name
		}
		return l.Name == same
	})
	if err != nil || same != "" {
		return event.ApprovalsAt{Lease: namespace + "/" + same, Plan: digest}, err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix(release), Namespace: namespace, Labels: map[string]string{labelManaged: "lockstep"}}}
	protect(lease, release, by)
	lease.Annotations[annotationPlan], lease.Annotations[annotationAsks] = digest, string(text)
	created, err := kube.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w; create the namespace first: kubectl create namespace %s", err, namespace)
	}
	if err != nil {
		return at, fmt.Errorf("create the Lease for approvals in namespace %s: %w", namespace, err)
	}
	return event.ApprovalsAt{Lease: namespace + "/" + created.Name, Plan: digest}, nil
}

// DeleteApprovals deletes the Leases of runs of a release outside of the cluster, except for those to keep. A run that is alive
// creates its Lease again; those of killed runs stay deleted.
func DeleteApprovals(ctx context.Context, kube kubernetes.Interface, namespace, release string, keep func(coordinationv1.Lease) bool) error {
	left, err := listApprovals(ctx, kube, namespace, release)
	for _, l := range slices.DeleteFunc(left, keep) {
		if err := kube.CoordinationV1().Leases(namespace).Delete(ctx, l.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Lease %s/%s with the approvals of a run that was killed: %w", namespace, l.Name, err)
		}
	}
	return err
}

// FindApprovals returns where the run of a release outside of the cluster reads its approvals, and which it asks for. It returns
// nil if there is none, and an error if there are several.
func FindApprovals(ctx context.Context, kube kubernetes.Interface, namespace, release string) (at *event.ApprovalsAt, asks []plan.Approval, err error) {
	found, err := listApprovals(ctx, kube, namespace, release)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	if len(found) > 1 {
		var runs []string
		for _, l := range found {
			runs = append(runs, fmt.Sprintf("Lease %s of %s, created at %s", l.Name, l.Annotations[annotationBy], l.CreationTimestamp.UTC().Format(time.RFC3339)))
		}
		return nil, nil, fmt.Errorf("%d runs of release %s ask for approvals (%s): stop all but one", len(found), release, strings.Join(runs, "; "))
	}
	at = &event.ApprovalsAt{Lease: namespace + "/" + found[0].Name, Plan: found[0].Annotations[annotationPlan]}
	if err := json.Unmarshal([]byte(found[0].Annotations[annotationAsks]), &asks); err != nil {
		return nil, nil, fmt.Errorf("read what Lease %s asks for: %w", at.Lease, err)
	}
	return at, asks, nil
}

// listApprovals returns the Leases of the runs of a release outside of the cluster.
func listApprovals(ctx context.Context, kube kubernetes.Interface, namespace, release string) ([]coordinationv1.Lease, error) {
	list, err := kube.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelApprovals + "=" + names.Of(release)})
	if err != nil {
		return nil, fmt.Errorf("list the Leases with approvals in namespace %s: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(l coordinationv1.Lease) bool { return l.Annotations[annotationAsks] == "" }), nil
}

// ApprovalsLease returns the Lease that has the approvals of the run in this pod, as namespace/name, "" if the run accepts
// others.
func ApprovalsLease() string {
	if os.Getenv(approvalsVar) == "" {
		return ""
	}
	return JobName()
}

// Approve writes approvals. user is who asks. It returns who has approved: somebody else may have been faster.
func Approve(ctx context.Context, kube kubernetes.Interface, at event.ApprovalsAt, approvals []plan.Approval, user string) (by string, err error) {
	if user == "" {
		return "", errNoUser
	}
	namespace, name, _ := strings.Cut(at.Lease, "/")
	leases := kube.CoordinationV1().Leases(namespace)
	var users []string
	err = retry.OnError(backoff, apierrors.IsConflict, func() error {
		found, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		users = nil
		for _, a := range approvals {
			key := ApprovalKey(at.Plan, a)
			if found.Annotations[key] == "" {
				metav1.SetMetaDataAnnotation(&found.ObjectMeta, key, user)
			}
			users = append(users, found.Annotations[key])
		}
		_, err = leases.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("write the approval to Lease %s: %w", at.Lease, err)
	}
	slices.Sort(users)
	return strings.Join(slices.Compact(users), ", "), nil
}

// WatchApprovals calls found with the users by key, now and after each change of a Lease, until ctx ends. If somebody deletes the
// Lease, it creates it again, and calls failed whenever it cannot.
func WatchApprovals(ctx context.Context, kube kubernetes.Interface, lease string, found func(map[string]string), failed func(error)) {
	namespace, name, _ := strings.Cut(lease, "/")
	in := inbox{leases: kube.CoordinationV1().Leases(namespace), name: name}
	for ctx.Err() == nil {
		for version := range in.versions(ctx, failed) {
			found(version.Annotations)
		}
		_ = parallel.Sleep(ctx, watchRetryDelay)
	}
}
