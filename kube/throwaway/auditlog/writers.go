package auditlog

import (
	"fmt"
	"strings"
	"time"
)

// Object says whose an object is: what Helm's label and annotations, and its annotation for hooks, say.
type Object struct {
	Owner string // "NAMESPACE/RELEASE"; "" if no release owns the object
	Hook  bool
}

// responseObject is the part of an object's JSON from which Object is made.
type responseObject struct {
	Kind     string
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
}

func (r *responseObject) object() *Object {
	a := r.Metadata.Annotations
	o := &Object{Hook: a["helm.sh/hook"] != ""}
	if release := a["meta.helm.sh/release-name"]; release != "" && r.Metadata.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		o.Owner = a["meta.helm.sh/release-namespace"] + "/" + release
	}
	return o
}

// ForeignWrites returns a line for each write of lockstep to something that belonged to somebody else at that moment, in
// the namespaces of interest ("" for objects without one):
//
//   - a run took over an object that another release owned, or that existed and nobody owned;
//   - a run deleted an object that no release owned, and that lockstep had not made;
//   - a run wrote to a release, its record or its objects, after somebody else had made a newer revision of it.
//
// It needs a log with objects. A connection counts as one run until it takes the lock of the release again. What a write
// met counts only if it was there when the request came in: requests that cross each other prove nothing.
func (l Log) ForeignWrites(interest func(namespace string) bool) (lines []string) {
	w := writers{objects: map[ObjectRef]held{}, newest: map[string]revision{}, holders: map[string]string{}, locked: map[[2]string]time.Time{}}
	for _, e := range l {
		if !e.Succeeded() || dryRun(e.RequestURI) || e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" {
			continue
		}
		problem := w.add(e)
		if problem != "" && interest(e.Object.Namespace) {
			lines = append(lines, fmt.Sprintf("%s %s %s %s/%s in %q: %s", e.Received.Format("15:04:05.000000"), e.Connection, e.Verb,
				e.Object.Resource, e.Object.Name, e.Object.Namespace, problem))
		}
	}
	return lines
}

// writers is the state of the cluster while a log is read: whose everything is.
type writers struct {
	objects map[ObjectRef]held      // the existing objects; without versions and subresources
	newest  map[string]revision     // by "NAMESPACE/RELEASE"
	holders map[string]string       // the connection that wrote the Lease of a release last
	locked  map[[2]string]time.Time // when a connection last took the lock of a release
}

// held is an existing object: whose it is, since when, and who made it.
type held struct {
	Object
	since time.Time
	maker string // user agent
}

// revision is the newest revision of a release: who made it, and when.
type revision struct {
	name, agent, connection string
	at                      time.Time
}

const (
	recordPrefix = "sh.helm.release.v1."
	leasePrefix  = "lockstep.v1."
)

// add takes in a write, and returns what is wrong with it, "" if nothing.
func (w *writers) add(e Event) (problem string) {
	o := e.Object
	switch {
	case o.Resource == "leases":
		if release, ok := strings.CutPrefix(o.Name, leasePrefix); ok {
			w.lock(e, o.Namespace+"/"+release)
		}
		return ""
	case o.Resource == "secrets" && strings.HasPrefix(o.Name, recordPrefix):
		release := o.Namespace + "/" + releaseOf(o.Name)
		problem = w.outdated(e, release)
		if e.Verb == "create" {
			w.newest[release] = revision{o.Name, e.UserAgent, e.Connection, e.At}
		}
		if newest := w.newest[release]; e.Verb == "delete" && newest.name == o.Name {
			delete(w.newest, release)
		}
		return problem
	case o.Resource == "events" || o.Subresource != "" || routine(o):
		return ""
	}
	o.APIVersion = ""
	before, existed := w.objects[o]
	existed = existed && before.since.Before(e.Received)
	if e.UserAgent == "lockstep" && existed {
		problem = w.foreign(e, before)
	}
	switch {
	case e.Verb == "deletecollection":
		for other := range w.objects {
			if other.Namespace == o.Namespace && other.Resource == o.Resource && other.APIGroup == o.APIGroup {
				delete(w.objects, other)
			}
		}
	case e.Verb == "delete":
		delete(w.objects, o)
	case e.After != nil && e.Verb != "delete":
		now := held{*e.After, e.At, e.UserAgent}
		if existed {
			now.maker = before.maker
		}
		w.objects[o] = now
	case e.Verb == "create": // by a component of the cluster, whose objects are not logged
		w.objects[o] = held{Object{}, e.At, e.UserAgent}
	}
	return problem
}

// lock takes in a write to the Lease of a release. Renewing it is not taking it.
func (w *writers) lock(e Event, release string) {
	if w.holders[release] != e.Connection {
		w.locked[[2]string{e.Connection, release}] = e.At
	}
	w.holders[release] = e.Connection
	if e.Verb == "delete" {
		delete(w.holders, release)
	}
}

// foreign returns why lockstep must not have written to an existing object.
func (w *writers) foreign(e Event, before held) string {
	switch {
	case e.Verb == "delete" && before.Owner == "" && !before.Hook && before.maker != "lockstep":
		return "deleted an object of no release, made by " + before.maker
	case e.After != nil && e.Verb != "delete" && e.After.Owner != "" && before.Owner != e.After.Owner && !(before.Owner == "" && before.maker == "lockstep"):
		if before.Owner == "" {
			return "took over an object of no release, made by " + before.maker
		}
		return "took over an object of release " + before.Owner
	}
	return w.outdated(e, before.Owner)
}

// outdated returns why a connection of lockstep must not have written to a release: its newest revision is somebody
// else's, and the connection has not taken the lock since.
func (w *writers) outdated(e Event, release string) string {
	newest, ok := w.newest[release]
	if e.UserAgent != "lockstep" || !ok || newest.connection == e.Connection || !newest.at.Before(e.Received) {
		return ""
	}
	if locked := w.locked[[2]string{e.Connection, release}]; locked.IsZero() || locked.After(newest.at) {
		return ""
	}
	return fmt.Sprintf("%s is newer, made by %s %s", newest.name, newest.agent, newest.connection)
}

// releaseOf returns the release of a record's name: "sh.helm.release.v1.shop.v3" is of shop.
func releaseOf(record string) string {
	name := strings.TrimPrefix(record, recordPrefix)
	return name[:max(0, strings.LastIndex(name, ".v"))]
}
