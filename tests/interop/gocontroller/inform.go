package main

import (
	"context"
	"errors"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

var errNeverSynced = errors.New("the informer never synced")

// inform follows the pods of the namespace with a typed informer.
func inform(ctx context.Context, w *world) error {
	factory := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithNamespace(w.namespace))
	pods := factory.Core().V1().Pods()
	if _, err := pods.Informer().AddEventHandler(reporter()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return errNeverSynced
	}
	held, err := pods.Lister().Pods(w.namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	names := []string{}
	for _, pod := range held {
		names = append(names, pod.Name)
	}
	sort.Strings(names)
	tell(facts{"event": "synced", "names": names})
	<-ctx.Done()
	return nil
}

// metadataOnly follows the metadata of ConfigMaps.
func metadataOnly(ctx context.Context, w *world) error {
	client, err := metadata.NewForConfig(w.config)
	if err != nil {
		return err
	}
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, w.namespace, nil)
	informer := factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Informer()
	if _, err := informer.AddEventHandler(reporter()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errNeverSynced
	}
	tell(facts{"event": "synced"})
	<-ctx.Done()
	return nil
}

func reporter() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(made any) { tell(sighting("added", made)) },
		UpdateFunc: func(_, changed any) { tell(sighting("updated", changed)) },
		DeleteFunc: func(gone any) {
			if tombstone, lost := gone.(cache.DeletedFinalStateUnknown); lost {
				gone = tombstone.Obj
			}
			tell(sighting("deleted", gone))
		},
	}
}

func sighting(event string, seen any) facts {
	object, ok := seen.(metav1.Object)
	if !ok {
		panic(fmt.Sprintf("a handler was given %T", seen))
	}
	told := facts{"event": event, "name": object.GetName(), "labels": object.GetLabels(), "type": fmt.Sprintf("%T", seen)}
	if pod, ok := seen.(*corev1.Pod); ok {
		told["phase"] = pod.Status.Phase
		told["image"] = pod.Spec.Containers[0].Image
	}
	return told
}

// controller is the smallest whole controller: for every pod with the label `copy`, a ConfigMap that it owns.
func controller(ctx context.Context, w *world) error {
	factory := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithNamespace(w.namespace))
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(seen any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(seen); err == nil {
			queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, seen any) { enqueue(seen) }}
	if _, err := pods.Informer().AddEventHandler(handler); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return errNeverSynced
	}
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	for key, stopped := queue.Get(); !stopped; key, stopped = queue.Get() {
		_, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			return err
		}
		if pod, err := pods.Lister().Pods(w.namespace).Get(name); err == nil && pod.Labels["copy"] != "" {
			if err := copyOf(ctx, w, pod); err != nil {
				tell(refusal(err))
				queue.AddRateLimited(key)
			} else {
				queue.Forget(key)
			}
		}
		queue.Done(key)
	}
	return nil
}

func copyOf(ctx context.Context, w *world, pod *corev1.Pod) error {
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, OwnerReferences: []metav1.OwnerReference{*owner}},
		Data:       map[string]string{"copy": pod.Labels["copy"]},
	}
	_, err := w.typed.CoreV1().ConfigMaps(w.namespace).Create(ctx, made, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		tell(facts{"event": "copied", "name": pod.Name})
	}
	return err
}
