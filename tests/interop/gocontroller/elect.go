package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// elect is a candidate for the Lease that its first argument names, under the identity that is its second.
func elect(ctx context.Context, w *world) error {
	identity := w.arguments[1]
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: w.namespace, Name: w.arguments[0]},
		Client:     w.typed.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { tell(facts{"event": "leading", "identity": identity}) },
			OnStoppedLeading: func() { tell(facts{"event": "stopped", "identity": identity}) },
			OnNewLeader:      func(leader string) { tell(facts{"event": "leader", "identity": leader}) },
		},
	})
	return nil
}
