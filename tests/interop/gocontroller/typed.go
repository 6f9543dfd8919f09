package main

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// typed posts objects whose fields are hard to carry: quantities, bytes, either a number or text, times to the
// microsecond. Typed clients send protobuf; what is told is what came back.
func typed(ctx context.Context, w *world) error {
	made := metav1.ObjectMeta{Name: "typed", Labels: map[string]string{"app": "typed"}, Annotations: map[string]string{"who": "Zoë"}}
	secret, err := w.typed.CoreV1().Secrets(w.namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: made, Data: map[string][]byte{"key": {0, 127, 255}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tell(facts{"kind": "Secret", "bytes": secret.Data["key"], "annotations": secret.Annotations, "type": secret.Type})
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: made.Labels}, Spec: hardPod()}
	selector := &metav1.LabelSelector{MatchLabels: made.Labels}
	rolling := appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromString("10%"))}
	deployment, err := w.typed.AppsV1().Deployments(w.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: made,
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(0)), Selector: selector, Template: template,
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &rolling},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tell(facts{"kind": "Deployment", "replicas": deployment.Spec.Replicas, "rolling": deployment.Spec.Strategy.RollingUpdate})
	container := deployment.Spec.Template.Spec.Containers[0]
	tell(facts{"kind": "Container", "requests": container.Resources.Requests, "port": container.LivenessProbe.HTTPGet.Port, "env": container.Env})
	budget, err := w.typed.PolicyV1().PodDisruptionBudgets(w.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: made,
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: ptr.To(intstr.FromString("50%"))},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tell(facts{"kind": "PodDisruptionBudget", "spec": budget.Spec})
	moment := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	lease, err := w.typed.CoordinationV1().Leases(w.namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: made, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me"), RenewTime: &moment},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tell(facts{"kind": "Lease", "spec": lease.Spec})
	return replaceAndDelete(ctx, w, deployment)
}

func hardPod() corev1.PodSpec {
	probe := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("web")}}
	field := &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name:          "main",
		Image:         "a:1",
		Ports:         []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
		LivenessProbe: &corev1.Probe{ProbeHandler: probe},
		Env:           []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: field}}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("0.25"), corev1.ResourceMemory: resource.MustParse("1536Mi"),
		}},
	}}}
}

// replaceAndDelete sends the other bodies that typed clients have: a whole update, and options of a deletion.
func replaceAndDelete(ctx context.Context, w *world, deployment *appsv1.Deployment) error {
	client := w.typed.AppsV1().Deployments(w.namespace)
	scale, err := client.GetScale(ctx, "typed", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 3
	if scale, err = client.UpdateScale(ctx, "typed", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	tell(facts{"kind": "Scale", "replicas": scale.Spec.Replicas})
	_, err = client.Update(ctx, deployment, metav1.UpdateOptions{})
	tell(facts{"step": "stale", "refusal": refusal(err)})
	wrong := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("another"))}}
	tell(facts{"step": "not that one", "refusal": refusal(client.Delete(ctx, "typed", wrong))})
	right := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &deployment.UID}}
	return client.Delete(ctx, "typed", right)
}
