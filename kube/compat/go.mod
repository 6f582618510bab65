// Each Kubernetes version has its own module file, for example: go build -modfile=v1.33.mod
module lockstep/kube/compat
