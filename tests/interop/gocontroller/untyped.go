package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

// widgets finds the custom resource by its kind, as generic tools do. The argument is its group.
func widgets(w *world) (*meta.RESTMapping, error) {
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	return mapper.RESTMapping(schema.GroupKind{Group: w.arguments[0], Kind: "Widget"})
}

// dynamicObjects takes a custom object through its life, under the eyes of a dynamic informer.
func dynamicObjects(ctx context.Context, w *world) error {
	mapping, err := widgets(w)
	if err != nil {
		return err
	}
	tell(facts{"step": "mapped", "resource": mapping.Resource.String(), "scope": mapping.Scope.Name()})
	gone := make(chan struct{})
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, w.namespace, nil)
	informer := factory.ForResource(mapping.Resource).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(any) { close(gone) },
	}); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	factory.Start(watching.Done())
	defer factory.Shutdown() // waits for informers that were told to stop
	defer stop()
	if !cache.WaitForCacheSync(watching.Done(), informer.HasSynced) {
		return errNeverSynced
	}
	if err := liveAndDie(ctx, w, mapping); err != nil {
		return err
	}
	select {
	case <-gone:
		tell(facts{"step": "gone"})
		return nil
	case <-ctx.Done():
		return errors.New("the informer never saw the end")
	}
}

func liveAndDie(ctx context.Context, w *world, mapping *meta.RESTMapping) error {
	client := w.dynamic.Resource(mapping.Resource).Namespace(w.namespace)
	body := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	body.SetGroupVersionKind(mapping.GroupVersionKind)
	body.SetName("w")
	made, err := client.Create(ctx, body, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tell(facts{"step": "made", "spec": made.Object["spec"], "generation": made.GetGeneration()})
	stale := made.DeepCopy()
	if err := unstructured.SetNestedField(made.Object, "Good", "status", "mood"); err != nil {
		return err
	}
	if made, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	tell(facts{"step": "status", "status": made.Object["status"], "generation": made.GetGeneration()})
	_, err = client.Update(ctx, stale, metav1.UpdateOptions{})
	tell(facts{"step": "stale", "refusal": refusal(err)})
	patch := []byte(`{"spec":{"size":2}}`)
	if made, err = client.Patch(ctx, "w", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	tell(facts{"step": "patched", "spec": made.Object["spec"], "generation": made.GetGeneration()})
	_, err = client.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"size":"big"}}`), metav1.PatchOptions{})
	tell(facts{"step": "invalid", "refusal": refusal(err)})
	return client.Delete(ctx, "w", metav1.DeleteOptions{})
}

// discover asks what the server has, as garbage collectors and kubectl do.
func discover(_ context.Context, w *world) error {
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	preferred, err := client.ServerPreferredResources()
	if err != nil {
		return err
	}
	deletable := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}, preferred)
	found, err := discovery.GroupVersionResources(deletable)
	if err != nil {
		return err
	}
	names := []string{}
	for resource := range found {
		names = append(names, resource.GroupResource().String())
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	tell(facts{"major": version.Major, "minor": version.Minor, "collectable": names, "documents": len(paths)})
	return nil
}
