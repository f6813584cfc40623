{{/* Egress to servers by port, and to DNS: a dict of root and ports. */}}
{{- define "licet.egress" -}}
- to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
- ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ index $.root.Values.networkPolicy.ports . }}}
    {{- end }}
{{- end -}}

{{/* Egress to the doors of tools. */}}
{{- define "licet.egressDoors" -}}
- to:
    - podSelector: {matchExpressions: [{key: licet/tool, operator: Exists}]}
      namespaceSelector: {matchLabels: {{ .Values.networkPolicy.namespaces | toJson }}}
{{- end -}}
