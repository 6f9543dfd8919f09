package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apps "k8s.io/client-go/applyconfigurations/apps/v1"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	meta "k8s.io/client-go/applyconfigurations/meta/v1"
)

// apply owns fields, meets another owner, takes its fields by force, and gives up what it no longer says.
func apply(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	mine := func(data map[string]string) *core.ConfigMapApplyConfiguration {
		return core.ConfigMap("applied", w.namespace).WithData(data)
	}
	first := metav1.ApplyOptions{FieldManager: "first"}
	second := metav1.ApplyOptions{FieldManager: "second"}
	made, err := maps.Apply(ctx, mine(map[string]string{"a": "1", "b": "1"}), first)
	if err != nil {
		return err
	}
	tell(facts{"step": "made", "data": made.Data})
	_, err = maps.Apply(ctx, mine(map[string]string{"a": "2"}), second)
	tell(facts{"step": "conflict", "refusal": refusal(err)})
	second.Force = true
	taken, err := maps.Apply(ctx, mine(map[string]string{"a": "2"}), second)
	if err != nil {
		return err
	}
	tell(facts{"step": "forced", "data": taken.Data})
	left, err := maps.Apply(ctx, mine(map[string]string{}), first)
	if err != nil {
		return err
	}
	tell(facts{"step": "given up", "data": left.Data})
	return applyDeployment(ctx, w)
}

// applyDeployment reads back with Extract what it applied, which needs the managed fields to be exact.
func applyDeployment(ctx context.Context, w *world) error {
	labels := map[string]string{"app": "d"}
	container := core.Container().WithName("main").WithImage("a:1")
	pod := core.PodTemplateSpec().WithLabels(labels).WithSpec(core.PodSpec().WithContainers(container))
	selector := meta.LabelSelector().WithMatchLabels(labels)
	wanted := apps.Deployment("d", w.namespace).
		WithSpec(apps.DeploymentSpec().WithReplicas(2).WithSelector(selector).WithTemplate(pod))
	options := metav1.ApplyOptions{FieldManager: "first"}
	made, err := w.typed.AppsV1().Deployments(w.namespace).Apply(ctx, wanted, options)
	if err != nil {
		return err
	}
	mine, err := apps.ExtractDeployment(made, "first")
	if err != nil {
		return err
	}
	tell(facts{"step": "deployment", "spec": mine.Spec, "strategy": made.Spec.Strategy.Type})
	return nil
}
