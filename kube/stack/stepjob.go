package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/helmfile"
	"lockstep/kube/lease"
	"lockstep/kube/names"
	"lockstep/kube/permissions"
	"lockstep/kube/preflight"
	"lockstep/kube/stepjob"
)

// A hook with an image runs as a Job in the namespace of its release; one of the file in that of the command. A Job that has
// succeeded is deleted at the end of the run: until then it tells the run after a kill, on any machine, that the hook is done.

// job returns the Job of a step. What it stands for is the step, with all that it runs, and what the releases are to become.
func (s *Stack) job(st *step, p helmfile.Program) stepjob.Job {
	j := stepjob.Job{
		Step: s.info.Release + "/" + st.id, Labels: map[string]string{"app.kubernetes.io/managed-by": "lockstep", "lockstep/step": names.Of(st.id)},
		Image: *p.Image, Command: p.Command, Args: p.Args, Rerun: st.hook.Rerun, Author: lease.NewAuthor(s.opts.Common.Job).String(),
	}
	_, j.Namespace = s.placeOf(st)
	if text, err := json.Marshal([]any{st.jobDigest, s.info.Name, p}); err == nil && st.jobDigest != "" {
		sum := sha256.Sum256(text)
		j.Digest = hex.EncodeToString(sum[:16])
	}
	return j
}

// placeOf returns where the Job of a step runs.
func (s *Stack) placeOf(st *step) (*connect.Client, string) {
	if st.member != nil {
		return st.member.client, st.member.Namespace
	}
	if first := s.members[0]; first.client != nil {
		return first.client, first.client.Namespace()
	}
	return nil, "" // without a cluster
}

// imageSteps returns the steps that run in the cluster.
func (s *Stack) imageSteps(of func(*step) bool) (all []*step) {
	for _, st := range s.steps {
		if st.hook.Image != nil && of(st) {
			all = append(all, st)
		}
	}
	return all
}

// begunBefore reports whether an earlier pod of the Job has changed a release or removed it: its hooks with an image are a part of
// the run, and those that have succeeded are known by their Jobs.
func (s *Stack) begunBefore(m *member) bool { return m.changedEarlier() || s.goneEarlier(m) }

// runJob runs the Job of a step, with more variables, while the run holds the lock of a release. why gets the reason for which its
// container has not started yet.
func (s *Stack) runJob(ctx context.Context, st *step, p helmfile.Program, env map[string]string, lock string, output func([]string), progress func(string), why *string) error {
	j := s.job(st, p)
	j.Env, j.RunID, j.Lock = env, s.run, lock
	c, _ := s.placeOf(st)
	if err := s.ensureNamespace(ctx, st); err != nil {
		return err
	}
	diagnoser := diagnose.New(c.Clientset, c.Dynamic, c.Getter).WithMask(s.Mask())
	object, looked := plan.Object{Group: "batch", Kind: "Job", Namespace: j.Namespace, Name: j.Name()}, time.Now()
	hide := sync.OnceFunc(func() { s.hideSecrets(context.WithoutCancel(ctx), st, j) })
	return j.Run(ctx, c.Clientset, stepjob.Handlers{
		Output: func(lines []string) {
			hide() // now the Secrets certainly exist
			output(lines)
		},
		TakeOn:  func() { progress("continues Job " + j.Name() + " of the run before") },
		Replace: func(author string) { progress("deletes Job " + j.Name() + " of a run that was killed: " + author) },
		Busy: func(author string) {
			*why = fmt.Sprintf("Job %s of another run (%s) has not ended; if that run is over, delete the Job: kubectl delete %s", j.Name(), author, j.Ref())
			progress("waits for the end of Job " + j.Name() + " of another run (" + author + ")")
		},
		Waiting: func() {
			if time.Since(looked) < waitingInterval {
				return
			}
			if found := diagnoser.Object(ctx, object); found.Cause != "" && ctx.Err() == nil {
				*why = found.Cause
				progress(found.Cause)
			}
			looked = time.Now()
		},
	})
}

// hideSecrets adds the Secrets that the container of a Job gets to the mask (S14).
func (s *Stack) hideSecrets(ctx context.Context, st *step, j stepjob.Job) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	c, _ := s.placeOf(st)
	for _, name := range j.Image.Secrets {
		secret, err := c.Clientset.CoreV1().Secrets(j.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			s.engine.Publish(event.Event{Kind: event.KindWarning, Rule: "S14", Message: fmt.Sprintf("the output of hook %s may show values of Secret %s/%s, which cannot be read to hide them: %v", st.id, j.Namespace, name, err)})
			continue
		}
		data := map[string]any{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		s.Mask().AddObject(map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": data})
	}
}

// waitingInterval is the time between two diagnoses of a Job whose container has not started.
const waitingInterval = 2 * time.Second

// ensureNamespace creates the namespace of a release before the Job of a hook that comes before the release, unless the chart
// brings it.
func (s *Stack) ensureNamespace(ctx context.Context, st *step) error {
	m := st.member
	if m == nil || !m.CreateNamespace || m.remove {
		return nil
	}
	namespaces := m.client.Clientset.CoreV1().Namespaces()
	if _, err := namespaces.Get(ctx, m.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return nil // the Job says what is wrong
	}
	if op := s.plannedOperation(m); op != nil {
		for g, o := range event.Objects(op.Phases()) {
			if g.Phase.Kind == event.PhaseApply && o.Kind == "Namespace" && o.Name == m.Namespace {
				return fmt.Errorf("namespace %s does not exist yet, and the chart of the release creates it: create it before, or use the event %s", m.Namespace, helmfile.Postsync)
			}
		}
	}
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.Namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", m.Namespace, err)
	}
	return nil
}

// tidyJobs deletes the Jobs of the steps that have succeeded.
func (s *Stack) tidyJobs() {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	for _, st := range s.imageSteps(s.planned) {
		if g := s.stateOf(st); g == nil || g.Status != event.Ready && g.Status != event.Gone {
			continue
		}
		p, err := st.hook.Program(st.at)
		if err == nil {
			c, _ := s.placeOf(st)
			err = s.job(st, p).Tidy(ctx, c.Clientset)
		}
		if err != nil {
			s.engine.Publish(event.Event{Kind: event.KindWarning, Rule: "S11a", Message: fmt.Sprintf("the Job of hook %s stays: %v", st.id, err)})
		}
	}
}

// StepPermissions returns the permissions that the hooks with an image need in a cluster.
func (s *Stack) StepPermissions(cluster connect.ClusterID) permissions.Set {
	return s.stepPermissions(cluster, anyStep)
}

func (s *Stack) stepPermissions(cluster connect.ClusterID, of func(*step) bool) permissions.Set {
	all := permissions.Set{}
	for _, st := range s.imageSteps(of) {
		if m := st.member; m != nil && m.cluster != cluster || m == nil && s.members[0].cluster != cluster {
			continue
		}
		_, namespace := s.placeOf(st)
		add := func(group, resource string, use permissions.Use, verbs ...string) {
			for _, verb := range verbs {
				all.Add(permissions.Permission{Verb: verb, Resource: schema.GroupResource{Group: group, Resource: resource}, Namespace: namespace, Use: use, Why: "for hooks with " + helmfile.ImageKey})
			}
		}
		add("batch", "jobs", permissions.Objects, "create", "get", "delete")
		add("", "pods", permissions.Objects, "list")
		add("", "pods/log", permissions.Objects, "get")
		if len(st.hook.Image.Secrets) > 0 {
			add("", "secrets", permissions.Details, "get")
		}
	}
	return all
}

// checkJobs returns an error if the run cannot run the planned hooks with an image.
func (s *Stack) checkJobs(ctx context.Context) error {
	checked := map[connect.ClusterID]bool{}
	var errs []error
	for _, m := range s.members {
		if checked[m.cluster] {
			continue
		}
		checked[m.cluster] = true
		if !s.opts.Common.PlanOnly && !s.opts.Common.SkipPreflight {
			errs = append(errs, preflight.CheckAllowed(ctx, m.client, s.stepPermissions(m.cluster, s.planned), func(string) string { return text.Program + " rbac" }))
		}
	}
	for _, st := range s.imageSteps(s.planned) {
		if st.member == nil && len(checked) > 1 {
			return fmt.Errorf("%s: hook %s has %s, but the file has releases in several clusters: move the hook to the releases", st.hook.At, st.hook.Name, helmfile.ImageKey)
		}
	}
	return errors.Join(errs...)
}
