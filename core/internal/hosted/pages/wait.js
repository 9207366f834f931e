// A page that waits for a wallet, a phone, or another request of this browser. The script requests the page's
// next state, and loads a page only if the state has changed. Until then, screen readers do not repeat the
// page, the focus stays, and the page does not flicker. Without script, the page reloads itself.
(() => {
	"use strict";

	const { page, state, again } = document.body.dataset;
	const usual = Number(document.body.dataset.after) * 1000;
	const longest = 30000; // between two requests, and for a response
	let delay = usual;
	let timer = 0;
	let over = false;

	// Another page must not interrupt a wallet's dialog or a form that is being sent.
	const mayLeave = () => !over && !document.querySelector("[data-step=credential] [aria-disabled=true]");

	const shows = (next) => {
		const [left, now] = [document, next].map((one) => one.querySelector("[data-part=left]"));
		if (left && now) {
			left.textContent = now.textContent;
		}
	};

	const look = async () => {
		const gone = new AbortController();
		const limit = setTimeout(() => gone.abort(), longest);
		try {
			const response = await fetch(again,
				{ cache: "no-store", headers: { Accept: "text/html" }, signal: gone.signal });
			if (response.status === 408 || response.status === 429 || response.status >= 500) {
				throw new Error("later");
			}
			const next = new DOMParser().parseFromString(await response.text(), "text/html");
			const { page: itsPage, state: itsState } = next.body.dataset;
			if (page === itsPage && state === itsState) {
				shows(next);
			} else if (mayLeave()) {
				over = true;
				location.replace(response.url);
			}
			delay = usual;
		} catch {
			delay = Math.min(2 * delay, longest);
		} finally {
			clearTimeout(limit);
		}
	};

	const wait = () => {
		clearTimeout(timer);
		timer = setTimeout(async () => {
			if (mayLeave()) {
				await look();
			}
			if (!over) {
				wait();
			}
		}, document.hidden ? Math.max(delay, 4 * usual) : delay);
	};

	addEventListener("submit", (event) => {
		over = over || !event.defaultPrevented;
	});
	addEventListener("pagehide", () => clearTimeout(timer));
	addEventListener("pageshow", (event) => {
		if (event.persisted) {
			location.replace(again);
		}
	});
	document.addEventListener("visibilitychange", () => {
		if (!document.hidden && !over) {
			delay = usual;
			wait();
		}
	});
	wait();
})();
