{{/* Everything here takes the root of the chart that depends on this one; its values lie below `licet-sidecar`. */}}

{{- define "licet-sidecar.values" -}}
{{- $v := index .Values "licet-sidecar" -}}
{{- if not $v.tool }}{{ fail "licet-sidecar.tool: name the tool, as its catalog does" }}{{ end -}}
{{- if not $v.catalog }}{{ fail "licet-sidecar.catalog: name the ConfigMap of the signed catalog" }}{{ end -}}
{{- if eq (int $v.users.sidecar) (int $v.users.tool) }}{{ fail "licet-sidecar.users: sidecar and tool must be different users" }}{{ end -}}
{{ $v | toJson }}
{{- end -}}

{{- define "licet-sidecar.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that select the tool's pods. */}}
{{- define "licet-sidecar.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every resource. */}}
{{- define "licet-sidecar.labels" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{ include "licet-sidecar.selector" . }}
app.kubernetes.io/component: tool
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: licet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
licet/tool: {{ $v.tool | quote }}
{{- end -}}

{{- define "licet-sidecar.image" -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest | quote }}
{{- else -}}
{{ printf "%s:%s" .repository .tag | quote }}
{{- end -}}
{{- end -}}

{{- define "licet-sidecar.dnsNames" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{- $name := include "licet-sidecar.name" . -}}
{{- $names := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) -}}
{{- range $more, $on := $v.tls.dnsNames }}{{ if $on }}{{ $names = append $names $more }}{{ end }}{{ end -}}
{{ join "," $names }}
{{- end -}}

{{- define "licet-sidecar.spiffeId" -}}
{{- $v := include "licet-sidecar.values" . | fromJson -}}
{{ printf "spiffe://%s/%s/sidecar/%s" $v.trustDomain $v.environment $v.tool }}
{{- end -}}
