/** What replies carry in few bytes: weights in 16 bits each, flags in one. */

/** @param {string} text base64 of zlib. @returns {Promise<Uint8Array>} */
export async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Weights from 16 bits each: all high bytes, then all low bytes. */
export async function unpack({ scale, data, steps = 65535 }) {
  const levels = readLevels(await inflate(data));
  return Float32Array.from(levels, (level) => (scale * level) / steps);
}

/** Numbers of 16 bits. */
export function readLevels(bytes) {
  const size = bytes.length / 2;
  return Uint16Array.from({ length: size }, (_, i) => 256 * bytes[i] + bytes[size + i]);
}

/** One byte for each bit, the first bit being the highest of its byte; `null` stays `null`: all keys are allowed. */
async function unpackBits(data, size) {
  if (!data) return null;
  const bytes = await inflate(data);
  return Uint8Array.from({ length: size }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
}

async function unpackMap(map) {
  const size = map.shape.reduce((product, side) => product * side, 1);
  const [weights, allowed] = await Promise.all([unpack(map), unpackBits(map.allowed, size)]);
  return { ...map, weights, allowed };
}

export async function unpackLook(look) {
  const [maps, latent] = await Promise.all([
    Promise.all(look.maps.map(unpackMap)),
    Promise.all((look.latent ?? []).map(async (tree) => tree && { ...tree, weights: await unpack(tree) })),
  ]);
  return { ...look, maps, latent };
}
