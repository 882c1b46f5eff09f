"""A browser as viser's server sees one: its websocket, without a page."""

import io
import threading
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

from hardsplat.serve.door import COOKIE


class Viewer:
    """Says where its camera is, and keeps what it gets. headers: more of them, such as a cookie."""

    def __init__(self, url: str, camera, headers=()):
        import viser
        from websockets.sync.client import connect

        self.images, self.texts = [], []  # (H, W, 3) uint8; contents of GUI elements
        self.elements = {}  # type and uuid of GUI elements
        self.notified = []  # titles of notifications, and "" where one goes
        how = dict(subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None)
        headers, address = dict(headers), urlsplit(url)
        if token := parse_qs(address.query).get("token"):  # as a browser that followed the URL
            headers["Cookie"] = f"{COOKIE}_{address.port}={token[0]}"
        url = f"ws://{address.netloc}/"
        self._connection = connect(url, additional_headers=headers, **how)
        self.look(camera)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def look(self, camera) -> None:
        """Moves its camera."""
        self.send(self.camera_message(camera))

    def send(self, message) -> None:
        """message: what it has, by name; or bytes or text, as they are."""
        import msgspec

        encoded = msgspec.msgpack.encode(message) if isinstance(message, dict) else message
        self._connection.send(encoded)

    def camera_message(self, camera) -> dict:
        from viser._messages import ViewerCameraMessage

        from hardsplat.serve.server import wxyz_of

        wxyz, position = wxyz_of(camera).tolist(), camera.position.tolist()
        ahead = (camera.position + camera.w2c[2, :3]).tolist()
        lens = camera.fov, 0.01, 1000.0, camera.height, camera.width
        up = (-camera.w2c[1, :3]).tolist()
        message = ViewerCameraMessage(wxyz, position, *lens, ahead, up).as_serializable_dict()
        return {name: list(v) if isinstance(v, tuple) else v for name, v in message.items()}

    def _listen(self) -> None:
        import msgspec
        import zstandard
        from websockets.exceptions import ConnectionClosed

        try:
            for raw in self._connection:
                size = int.from_bytes(raw[8:16], "little")
                data = zstandard.ZstdDecompressor().decompress(raw[16 : 16 + size])
                for message in msgspec.msgpack.decode(data)["messages"]:
                    if message["type"] == "BackgroundImageMessage" and message["rgb_data"]:
                        picture = Image.open(io.BytesIO(message["rgb_data"])).convert("RGB")
                        self.images.append(np.asarray(picture))
                    elif message["type"] == "NotificationShowMessage":
                        self.notified.append(message["props"]["title"])
                    elif message["type"] == "RemoveNotificationMessage":
                        self.notified.append("")
                    elif message["type"] == "GuiUpdateMessage":
                        self.texts.append(str(message["updates"]))
                    elif message["type"].startswith("Gui") and "uuid" in message:
                        self.elements[message["type"]] = message["uuid"]
        except (ConnectionClosed, OSError):
            pass

    def vanish(self) -> None:
        """As a machine does that loses its network: without a word."""
        self._connection.socket.close()

    def close(self) -> None:
        self._connection.close()
