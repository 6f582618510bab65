// Each Kubernetes version has a file of its own beside this one: go build -modfile=v1.33.mod
module lockstep/kube/compat
