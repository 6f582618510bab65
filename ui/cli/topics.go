package cli

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
