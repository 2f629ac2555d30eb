"""Answers from any server that speaks the chat-completions API, streamed over HTTP/1.1."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self

import anyio
import httpx

from turnlog.services.providers.completion_answer import AnswerCutShortError, answer_parts, json_value, refusal_body
from turnlog.services.providers.completion_request import request_body
from turnlog.services.providers.error_codes import error_code
from turnlog.services.providers.openai_settings import (
    checked_base_url,
    checked_key,
    checked_model,
    checked_retries,
    checked_seconds,
)
from turnlog.services.providers.provider import ProviderError, ProviderPart, ProviderRequest
from turnlog.services.providers.retry_pauses import backoff, retry_after


class ProviderTimeoutError(ProviderError, TimeoutError):
    """The provider took longer than allowed; the text names the seconds."""


class _Again(Exception):  # noqa: N818 - not an error yet
    """This attempt failed with `error`, in a way that another one may not; `after_s` is what the server asked for."""

    def __init__(self, error: ProviderError, after_s: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.after_s = after_s


class OpenAICompatible:
    """One model at `base_url`, which usually ends in /v1. Safe for several requests at once; close it at the end.

    `timeout_s` is the longest silence in an answer (a keepalive breaks it), `connect_timeout_s` the longest wait for a
    connection. `retries` further attempts follow a 429, a 5xx, a lost connection or a stream that ends too soon, as
    long as nothing of the answer has been given out. They wait `first_pause_s`, doubling up to `longest_pause_s`, or as
    long as Retry-After says; a server that asks for more than `longest_pause_s` isn't asked again. All times are in
    seconds.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 10.0,
        retries: int = 3,
        first_pause_s: float = 0.5,
        longest_pause_s: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Raises BadInput naming the field that can't work. Connects to nothing yet."""
        self._base_url = checked_base_url(base_url)
        self._model = checked_model(model)
        self._timeout_s = checked_seconds(timeout_s, "timeout_s")
        self._connect_timeout_s = checked_seconds(connect_timeout_s, "connect_timeout_s")
        self._retries = checked_retries(retries)
        self._first_pause_s = checked_seconds(first_pause_s, "first_pause_s")
        self._longest_pause_s = checked_seconds(longest_pause_s, "longest_pause_s")
        self._sleep = sleep
        # Compression would hide small pieces in a server's buffer.
        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        if key := checked_key(api_key):
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=connect_timeout_s),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    def __repr__(self) -> str:
        return f"OpenAICompatible(base_url={self._base_url!r}, model={self._model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. Requests that still run fail."""
        await self._client.aclose()

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[ProviderPart, None]:
        """The answer: texts as they come, then the calls, then the metadata; closing it ends the HTTP request.

        Raises ProviderError (ProviderTimeoutError for a silence), and BadInput for a request that is not JSON.
        """
        body = request_body(self._model, request)
        for attempt in range(self._retries + 1):
            try:
                async with aclosing(self._attempt(body)) as parts:
                    async for part in parts:
                        yield part
            except _Again as again:
                await self._pause(attempt, again)
            else:
                return

    async def _pause(self, attempt: int, again: _Again) -> None:
        if attempt == self._retries:
            raise again.error from None
        pause_s = again.after_s
        if pause_s is None:
            pause_s = backoff(attempt, first_s=self._first_pause_s, longest_s=self._longest_pause_s)
        if pause_s > self._longest_pause_s:
            text = f"{again.error}, and asks to wait {pause_s:.0f} seconds"
            raise ProviderError(text, http_status=again.error.http_status) from None
        await self._sleep(pause_s)

    async def _attempt(self, body: bytes) -> AsyncGenerator[ProviderPart, None]:
        if self._client.is_closed:
            raise ProviderError("The provider's client was closed")
        given = False
        try:
            async with self._client.stream(
                "POST",
                f"{self._base_url}/chat/completions",
                content=body,
                headers={"content-type": "application/json"},
            ) as response:
                if response.status_code != httpx.codes.OK:
                    await self._refused(response)
                async with aclosing(answer_parts(response)) as parts:
                    async for part in parts:
                        given = True
                        yield part
        except httpx.ConnectTimeout:
            text = f"No connection to the provider within {self._connect_timeout_s:g} seconds"
            raise _Again(ProviderTimeoutError(text)) from None
        except httpx.TimeoutException:
            raise ProviderTimeoutError(f"The provider was silent for {self._timeout_s:g} seconds") from None
        except httpx.ConnectError:
            raise _Again(ProviderError("The provider can't be reached")) from None
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            lost = ProviderError("The connection to the provider was lost")
            if given:
                raise lost from None
            raise _Again(lost) from None
        except AnswerCutShortError as cut:
            if given:
                raise
            raise _Again(cut) from None
        except httpx.HTTPError as error:
            raise ProviderError(f"The request to the provider failed: {type(error).__name__}") from None

    async def _refused(self, response: httpx.Response) -> None:
        status = response.status_code
        code = error_code(json_value(await refusal_body(response)))
        error = ProviderError(
            f"The provider answered with HTTP {status}" + (f" ({code})" if code else ""), http_status=status
        )
        if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise _Again(error, retry_after(response.headers.get("retry-after")))
        raise error
