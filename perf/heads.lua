-- Heads that vary, for wrk: `wrk ... -s heads.lua URL -- KIND SALT`.
--
--   pool      500 cookies, each with any of 200 paths: 100,000 heads that come again
--   unique    a cookie never sent before, whatever ran earlier (SALT differs between runs)
--   distinct  a path never sent before, in the directory of URL, and no field but Host
--
-- The first two are a browser's heads. Only the cookie and the path vary, as between
-- visitors of one site with one browser.
-- All that can be joined ahead of time is, so that wrk stays ahead of the server.

local COOKIES, PATHS = 500, 200

local before_cookie, after_cookie = {}, "\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n"
    .. "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\r\n"
local cookies = {}
local random = math.random

local function pooled()
  return before_cookie[random(PATHS)] .. cookies[random(COOKIES)] .. after_cookie
end

local count, salt = 0, ""
local function unheard()
  count = count + 1
  return before_cookie[random(PATHS)] .. salt .. count .. after_cookie
end

local before_name, after_name
local function untrodden()
  count = count + 1
  return before_name .. count .. after_name
end

function init(arguments)
  math.randomseed(449)
  local host = wrk.headers["Host"]
  local fields = " HTTP/1.1\r\nHost: " .. host .. "\r\n"
      .. "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0\r\n"
      .. "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n"
      .. "Accept-Language: en-GB,en;q=0.7,fr;q=0.3\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"
      .. "Referer: http://" .. host .. "/\r\nConnection: keep-alive\r\nCookie: theme=dark; session="
  for number = 1, PATHS do
    before_cookie[number] = "GET /paths/" .. number .. ".html" .. fields
  end
  for number = 1, COOKIES do
    cookies[number] = string.format("%08x%08x", random(0, 2 ^ 31 - 1), number)
  end
  salt = (arguments[2] or "0") .. "-"
  before_name = "GET " .. wrk.path:match("^.*/") .. salt
  after_name = " HTTP/1.1\r\nHost: " .. host .. "\r\n\r\n"
  local kinds = { pool = pooled, unique = unheard, distinct = untrodden }
  request = kinds[arguments[1]]
end
