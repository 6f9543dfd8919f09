package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	recording "k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
)

// record tells the same Event twice about the ConfigMap that the argument names: the first is created, the second
// counts the first up by a patch.
func record(ctx context.Context, w *world) error {
	subject, err := w.typed.CoreV1().ConfigMaps(w.namespace).Get(ctx, w.arguments[0], metav1.GetOptions{})
	if err != nil {
		return err
	}
	about, err := reference.GetReference(scheme.Scheme, subject)
	if err != nil {
		return err
	}
	seen, err := w.typed.CoreV1().Events(w.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer seen.Stop()
	broadcaster := recording.NewBroadcaster(recording.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: w.typed.CoreV1().Events(w.namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "gocontroller"})
	for range 2 {
		recorder.Event(about, corev1.EventTypeNormal, "Tried", "something was tried")
	}
	for change := range seen.ResultChan() {
		event, ok := change.Object.(*corev1.Event)
		if !ok {
			return errors.New("a watch of Events gave something else")
		}
		tell(facts{"change": change.Type, "reason": event.Reason, "count": event.Count, "about": event.InvolvedObject.Name})
		if event.Count == 2 {
			return nil
		}
	}
	return errors.New("the watch ended early")
}
