"""Which codes in a provider's errors are repeated in ours."""

_WORDS = """
api_error authentication_error bad_request billing_hard_limit_reached billing_not_active content_filter
content_policy_violation context_length_exceeded engine_overloaded exceed_context_size_error insufficient_quota
internal_error internal_server_error invalid_api_key invalid_argument invalid_model invalid_prompt invalid_request
invalid_request_error invalid_tool invalid_value json_validate_failed model_not_found not_found not_found_error
overloaded overloaded_error permission_denied permission_error quota_exceeded rate_limit rate_limit_error
rate_limit_exceeded request_too_large requests_limit_reached resource_exhausted server_error service_unavailable
string_above_max_length timeout timeout_error token_limit_exceeded tokens tool_use_failed unauthorized
unavailable_error unsupported_parameter unsupported_value
authenticationerror badrequesterror deploymentnotfound internalservererror notfounderror permissiondeniederror
ratelimiterror unprocessableentityerror
"""
_KNOWN = frozenset(_WORDS.split())


def error_code(body: object) -> str | None:
    """The code or type in an error object, if it is a usual one: everything else may quote a message or the key."""
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        for name in ("code", "type"):
            code = error.get(name)
            if isinstance(code, str) and code.lower() in _KNOWN:
                return code
    return None
