// SPDX-License-Identifier: MIT
//! The curl crate, which is cargo's own client.
use curl::easy::{Easy, HttpVersion, List};
use std::env;

fn ask(path: &str, field: &str, body: Option<&[u8]>) -> Result<(u32, String, Vec<u8>), curl::Error> {
    let mut easy = Easy::new();
    let mut fields = List::new();
    let mut got = Vec::new();
    let mut line = String::new();

    easy.url(&format!("{}{}", env::var("BASE").unwrap(), path))?;
    easy.http_version(HttpVersion::V2TLS)?;
    fields.append(&format!("{}{}", field, env::var("TOKEN").unwrap()))?;
    fields.append("Expect:")?;
    easy.http_headers(fields)?;
    if let Some(data) = body {
        easy.post(true)?;
        easy.post_fields_copy(data)?;
    }
    {
        let mut transfer = easy.transfer();
        transfer.header_function(|data| {
            if data.starts_with(b"HTTP/") {
                line = String::from_utf8_lossy(data).split(' ').next().unwrap().to_string();
            }
            true
        })?;
        transfer.write_function(|data| {
            got.extend_from_slice(data);
            Ok(data.len())
        })?;
        transfer.perform()?;
    }
    Ok((easy.response_code()?, line, got))
}

fn main() {
    let upload: Vec<u8> = "0123456789".repeat(10000).into_bytes();

    for (path, field, body) in [
        ("/echo", "Authorization: Bearer ", None),
        ("/echo", "X-Api-Key: ", Some(&upload[..])),
    ] {
        let (status, version, got) = ask(path, field, body).unwrap();
        println!("{{\"status\":{},\"version\":\"{}\",\"body\":{}}}", status, version, String::from_utf8(got).unwrap());
    }
    let (status, version, got) = ask("/blob", "X-Api-Key: ", None).unwrap();
    println!("{{\"status\":{},\"version\":\"{}\",\"length\":{}}}", status, version, got.len());
}
