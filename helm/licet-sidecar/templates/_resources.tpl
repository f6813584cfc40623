{{/* Whole resources; a chart puts each into a file of its own. */}}

{{- define "licet-sidecar.service" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "licet-sidecar.name" . }}
  labels:
    {{- include "licet-sidecar.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "licet-sidecar.selector" . | nindent 4 }}
  ports:
    - {name: grpc, port: {{ int $v.port }}, targetPort: grpc, appProtocol: grpc}
{{- end -}}

{{- define "licet-sidecar.poddisruptionbudget" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "licet-sidecar.name" . }}
  labels:
    {{- include "licet-sidecar.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ int $v.disruption.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "licet-sidecar.selector" . | nindent 6 }}
{{- end -}}

{{- define "licet-sidecar.horizontalpodautoscaler" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{- if $v.autoscaling.enabled -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "licet-sidecar.name" . }}
  labels:
    {{- include "licet-sidecar.labels" . | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ include "licet-sidecar.name" . }}}
  minReplicas: {{ int $v.replicas }}
  maxReplicas: {{ int $v.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ int $v.autoscaling.cpuPercent }}}}
    {{- with $v.autoscaling.inFlightMetric }}
    - type: Pods
      pods:
        metric: {name: {{ . | quote }}}
        target: {type: AverageValue, averageValue: {{ $v.autoscaling.inFlightTarget | int | quote }}}
    {{- end }}
{{- end -}}
{{- end -}}

{{- define "licet-sidecar.certificate" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{- if eq $v.tls.source "certManager" -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ include "licet-sidecar.name" . }}
  labels:
    {{- include "licet-sidecar.labels" . | nindent 4 }}
spec:
  secretName: {{ default (printf "licet-%s-tls" $v.tool) $v.tls.secret | quote }}
  duration: 24h
  renewBefore: 8h
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: [digital signature, server auth, client auth]
  uris: [{{ include "licet-sidecar.spiffeId" . | quote }}]
  dnsNames:
    {{- range splitList "," (include "licet-sidecar.dnsNames" .) }}
    - {{ . | quote }}
    {{- end }}
  issuerRef: {name: {{ $v.tls.issuer.name | quote }}, kind: {{ $v.tls.issuer.kind }}, group: {{ $v.tls.issuer.group | quote }}}
{{- end -}}
{{- end -}}

{{- define "licet-sidecar.networkpolicy" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{- if $v.networkPolicy.enabled -}}
{{- $namespaces := $v.networkPolicy.namespaces | toJson -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "licet-sidecar.name" . }}
  labels:
    {{- include "licet-sidecar.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "licet-sidecar.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - podSelector: {matchLabels: {{ $v.networkPolicy.callers | toJson }}}
          namespaceSelector: {matchLabels: {{ $namespaces }}}
        # Facts are read, and rounds are fenced, through the door as well.
        - podSelector:
            matchLabels: {app.kubernetes.io/part-of: licet}
            matchExpressions: [{key: app.kubernetes.io/component, operator: In, values: [decider, reconciler]}]
          namespaceSelector: {matchLabels: {{ $namespaces }}}
      ports: [{protocol: TCP, port: grpc}]
    {{- if $v.metrics.port }}
    - from: [{namespaceSelector: {matchLabels: {{ $v.metrics.scrapers | toJson }}}}]
      ports: [{protocol: TCP, port: metrics}]
    {{- end }}
  egress:
    - to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]
      ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
    - to:
        - podSelector: {matchLabels: {app.kubernetes.io/part-of: licet, app.kubernetes.io/component: decider}}
          namespaceSelector: {matchLabels: {{ $namespaces }}}
      ports: [{protocol: TCP, port: {{ int $v.networkPolicy.ports.decider }}}]
    - ports:
        - {protocol: TCP, port: {{ int $v.networkPolicy.ports.nats }}}
        - {protocol: TCP, port: {{ int $v.networkPolicy.ports.otlp }}}
    {{- range $name, $rule := $v.networkPolicy.egress }}
    - {{ $rule | toJson }}
    {{- end }}
{{- end -}}
{{- end -}}
