// SPDX-License-Identifier: MIT
//! ureq on rustls, with the system's certificates.
use std::env;
use std::io::Read;

fn show(reply: ureq::Response) {
    println!("{{\"status\":{},\"version\":\"{}\",\"body\":{}}}", reply.status(), reply.http_version().to_string(),
             reply.into_string().unwrap());
}

fn main() {
    let base = env::var("BASE").unwrap();
    let token = env::var("TOKEN").unwrap();
    let mut data = Vec::new();

    show(ureq::get(&format!("{base}/echo")).set("Authorization", &format!("Bearer {token}")).call().unwrap());
    show(ureq::post(&format!("{base}/echo")).set("X-Api-Key", &token).send_string(&"0123456789".repeat(10000)).unwrap());
    let reply = ureq::get(&format!("{base}/blob")).set("X-Api-Key", &token).call().unwrap();
    let (status, version) = (reply.status(), reply.http_version().to_string());
    reply.into_reader().read_to_end(&mut data).unwrap();
    println!("{{\"status\":{},\"version\":\"{}\",\"length\":{}}}", status, version, data.len());
}
