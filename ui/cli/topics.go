package cli

import ()

const annotationsTopic = `How a chart asks for an order

Groups inside of a chart. Each resource says in which group it is and which groups its group waits for:

  metadata:
    annotations:
      helm.sh/resource-group: app
      helm.sh/depends-on/resource-groups: '["database", "queue"]'   # a YAML list is fine, too

A group starts as soon as all resources of the groups it waits for are ready. Names reach no other chart.
Resources without a group come last in their chart.

Subcharts. In Chart.yaml:

  dependencies:
    - name: api
      depends-on: ["db"]          # api waits for all of db, by name or alias
  annotations:
    helm.sh/depends-on/subcharts: '["api"]'   # the chart's own resources wait for all of api

Subcharts that nothing orders are deployed side by side.

Readiness. Usually what Kubernetes says of a resource. Both of these together replace it, each a list of
expressions on .status of which one must hold:

  helm.sh/readiness-success: '["{.succeeded} == 1"]'
  helm.sh/readiness-failure: '["{.failed} >= 3"]'

A Job counts as ready once it has started; to wait for its end say so as above, or give --wait-for-jobs.

Charts for Helm as well. Helm 4.3.1 cannot install annotations that are YAML lists, nor keys with two slashes on
resources. Keys with one slash and JSON in a string mean the same here and are nothing to Helm:

  helm.sh/depends-on-resource-groups: '["database"]'

So do helm.sh/dependson-layer, helm.sh/dependson-chart, and in Chart.yaml helm.sh/depends-on-subcharts.

Other spellings: helm.sh/layer with helm.sh/dependson/layer and helm.sh/dependson/chart, or helm.sh/weight (lower
first). One chart uses one of them. helm.sh/install-before: "Deployment" orders kinds inside of a group.

Hooks run around the whole operation. On a pre-install, post-install, pre-upgrade or post-upgrade hook of a subchart
this makes it run around that subchart's own turn instead; Helm itself does not know it:

  lockstep/hook-scope: subchart

Check a chart with: lockstep lint CHART, lockstep dag CHART
`

const inferredTopic = `The order that a chart implies

Most charts say nothing of their order. Their objects do: lockstep suggest CHART reads it from what is rendered, without
a cluster, and says for each edge from which field. An edge is one of three:

  hard     what an object names: its namespace and the definition of its kind, the ConfigMaps, Secrets, claims, classes
           and account of its pods, the rights of that account, the Services of an Ingress, the target of an autoscaler,
           a budget or a monitor, the Service of a webhook or an API. The other has to be there, not to be ready.
  serving  what an object calls, which has to be ready: the pods behind a Service whose DNS name stands in arguments,
           environment, or the ConfigMaps and Secrets that its pods use; what answers a webhook that looks at it, converts
           it, or serves its API; the operator of a custom resource, that is, who may write the status of its API group.
  soft     what is better done first: what a container waits for in a command, a Job that uses the same database, what
           Helm's order of kinds puts first.

Optional references, workloads of 0 replicas and names of other namespaces are no edges, nor is a word that only looks
like a Service's name: "db" counts in DATABASE_HOST=db, db:5432, http://db/ and nc -z db 5432, and not in ENGINE=db.
Of objects that wait for each other in a circle the softest edges go, and it is said.

Groups follow from edges. A workload and what only it needs are a group, named after the workload. What several need
comes first, as base; definitions of kinds are crds. What has nothing to wait for does not wait.

Subcharts wait for each other as a whole; what lies in a subchart cannot wait for its parent's own resources.

What annotations say already stands, and is added to.

Look at it with: lockstep suggest CHART, or with --tui
Deploy by it with: lockstep install NAME CHART --order=inferred
Write it down with: lockstep suggest CHART --write

Deployed, it is kept in the release's record, where a rollback and an uninstallation find it; neither the cluster nor the
stored manifest has annotations of it. What never started says why it waited. Written down, it is what any author could
have written: lines are added to templates and to Chart.yaml, and what cannot be done safely is told.
`

const kubernetesTopic = `Kubernetes versions

lockstep's end-to-end tests run on a real API server, controller manager and scheduler, built from the modules of each
version, with simulated nodes. This is what was seen. Versions in between, older ones, and 1.31 were not run.

                                                    1.33.13  1.35.4   1.37.1
  install, upgrade, rollback, uninstall, recover    yes      yes      yes
  kills, outages and two runs at once               yes      yes      yes
  the first four with --server-side=false           yes      yes      yes
  the API server's warnings are shown               yes      yes      yes
  missing rights are found before the first write   yes      yes      yes
  as admin of one namespace (ClusterRole admin)     yes      yes      yes
  behind a proxy that holds watches back            yes      not run  yes
  ValidatingAdmissionPolicy: a refusal is explained yes      yes      yes
  MutatingAdmissionPolicy of a chart is obeyed      -        -        yes

  -  the cluster does not serve that kind unless a feature gate turns it on; from 1.36 it does

No version needs another flag. Behind a proxy that holds watches back, lockstep sees a change up to 5 seconds late at
first and then up to 2; --debug says so.

Run it yourself: make compat, or make compat KUBERNETES=1.33
`
