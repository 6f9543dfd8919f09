package main

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evict asks for the eviction of every pod it is given.
func evict(ctx context.Context, w *world) error {
	for _, name := range w.arguments {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
		err := w.typed.PolicyV1().Evictions(w.namespace).Evict(ctx, eviction)
		told := facts{"name": name, "evicted": err == nil}
		if err != nil {
			told["refusal"] = refusal(err)
		}
		tell(told)
	}
	return nil
}
