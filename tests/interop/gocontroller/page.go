package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// page reads the Secrets of the namespace two at a time.
func page(ctx context.Context, w *world) error {
	pages := 0
	read := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return w.typed.CoreV1().Secrets(w.namespace).List(ctx, options)
	})
	read.PageSize = 2
	names := []string{}
	err := read.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		names = append(names, item.(*corev1.Secret).Name)
		return nil
	})
	tell(facts{"pages": pages, "names": names})
	return err
}
