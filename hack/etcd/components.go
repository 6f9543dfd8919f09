//go:build components

// Package etcd only names the command that `make kube` builds, so that go.sum covers it.
package etcd

import _ "go.etcd.io/etcd/server/v3"
